#!/bin/sh
# The same runs built by the two that have least in common, gcc -O0 and clang -O2: equal traces, bit for
# bit. What the traces depend on is built anew each time: the simulator, core/place, host tables, placers.
# Usage: repeat.sh <source folder> <build folder>
set -eu
root=$1
build=$2
if ! command -v gcc >/dev/null || ! command -v clang >/dev/null; then
    echo "SKIPPED: gcc and clang are needed"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
launcher=$(command -v ccache || true)
jobs=2
umask 022

includes="-I$root/include"
for room in base conf model plugin place sim; do
    includes="$includes -I$build/rooms/$room"
done
hosts=$(ls "$root"/sim/*.c "$root"/core/place/*.c)
for f in tables current crumb health; do
    hosts="$hosts $root/core/plugin/$f.c"
done
placers=
for p in naive ch p2c first chbl hybrid; do
    [ ! -d "$root/plugins/placer-$p" ] || placers="$placers placer-$p"
done

make_one() {
    cc=$1 opt=$2
    out=$tmp/$cc$opt
    mkdir -p "$out"
    flags="$opt -g0 -std=gnu11 -w -fPIC -fvisibility=hidden -fno-strict-aliasing -D_GNU_SOURCE"
    flags="$flags -DFND_VERSION=\"1.0\" $includes"
    # shellcheck disable=SC2086
    for f in $hosts "$root/tests/unit/sim/repeat.c"; do
        name=${f#"$root"/}
        echo "$launcher $cc $flags -c $f -o $out/$(echo "$name" | tr / _).o"
    done >"$out/commands"
    xargs -P "$jobs" -d '\n' -I{} sh -c '{}' <"$out/commands"
    # shellcheck disable=SC2046
    $cc -o "$out/repeat" "$out"/*.o "$build/core/plugin/libfnd_plugin.a" \
        "$build/core/conf/libfnd_conf.a" "$build/core/model/libfnd_model.a" \
        "$build/core/base/libfnd_base.a" \
        $(pkg-config --libs yaml-0.1 libcrypto) -lpthread -ldl -lm
    for p in $placers; do
        for f in "$root/plugins/$p"/*.c "$root"/plugins/common/sip.c; do
            # shellcheck disable=SC2086
            $launcher $cc $flags -I"$root/plugins/$p" -I"$root/plugins/common" -c "$f" \
                -o "$out/$p-$(basename "$f").obj"
        done
        # shellcheck disable=SC2046
        $cc -shared -o "$out/$p.so" "$out/$p"-*.obj -Wl,-z,now $(pkg-config --libs libcrypto) -lm
    done
}

run_one() {
    "$tmp/$1/repeat" 7 "$root"/tests/scenario/*.yaml "$tmp/$1"/*.so >"$tmp/$1/trace"
}

builds="gcc-O0 clang-O2"
pids=
for b in $builds; do
    make_one "${b%-O*}" "-O${b#*-O}" &
    pids="$pids $!"
done
for pid in $pids; do
    wait "$pid"
done
for b in $builds; do
    run_one "$b"
    if ! diff "$tmp/gcc-O0/trace" "$tmp/$b/trace"; then
        echo "FAILED: $b gives other traces than gcc-O0"
        exit 1
    fi
done
lines=$(wc -l <"$tmp/gcc-O0/trace")
[ "$lines" -ge 20 ] || { echo "FAILED: $lines runs; expected at least 20"; exit 1; }
echo "$lines runs, $(echo "$builds" | wc -w) builds, equal traces"
