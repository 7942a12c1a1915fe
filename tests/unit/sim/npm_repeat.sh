#!/bin/sh
# The same seeds by the two builds that have least in common, gcc -O0 and clang -O2: equal hashes of all
# events and actions.
# Usage: npm_repeat.sh <source folder> <build folder>
set -eu
root=$1
build=$2
if ! command -v gcc >/dev/null || ! command -v clang >/dev/null; then
    echo "SKIPPED: gcc and clang are needed"
    exit 77
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
sources="$root/plugins/pool-npm/groups.c"
for f in cplane demand explain group hosts index labels scale step; do
    sources="$sources $root/core/npm/$f.c"
done
for f in books books_demand cloud heap lb main node quiet run; do
    sources="$sources $root/sim/npm/$f.c"
done
for build_with in "gcc -O0" "clang -O2"; do
    # shellcheck disable=SC2086
    $build_with -std=gnu11 -w -D_GNU_SOURCE -I"$build/rooms/npm" -I"$build/rooms/base" -I"$root/include" \
        -I"$root/plugins/pool-npm" -I"$root/plugins/common" -I"$root/sim/npm" \
        $sources -o "$tmp/npm_sim"
    "$tmp/npm_sim" --seed 1 --seeds 12 --hours 0.5 --hash >"$tmp/$build_with"
    if ! diff "$tmp/gcc -O0" "$tmp/$build_with"; then
        echo "FAILED: $build_with gives other hashes than gcc -O0"
        exit 1
    fi
done
lines=$(sort -u "$tmp/gcc -O0" | wc -l)
[ "$lines" -eq 12 ] || { echo "FAILED: $lines different runs; expected 12"; exit 1; }
echo "12 seeds, 2 builds, equal hashes"
