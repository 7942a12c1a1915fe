#!/bin/sh
# What the dynamic linker could mix up: a plugin exports its entry and nothing else, the host exports
# nothing for a plugin to bind to. Usage: symbols.sh <build folder>
set -u
build=$1
failed=0
n=0

exported() {
    nm -D --defined-only "$1" | awk '{ print $3 }' | sort -u | tr '\n' ' '
}

for so in "$build"/plugins/*.so "$build"/samples/*.so; do
    [ -e "$so" ] || continue
    n=$((n + 1))
    got=$(exported "$so")
    if [ "$got" != "fn_plugin_v1 " ]; then
        echo "FAILED: $so exports $got; expected fn_plugin_v1 alone"
        failed=$((failed + 1))
    fi
done
# Copies of the C library's own variables are not ours: "stderr@GLIBC_2.2.5". fnkit stands in for
# functions of the C library (sim_tripwire.c) and exports those, nothing else; fnd for _exit() and
# _Exit(), so that a plugin that ends the process is told (crash.c).
libc=$(ldd "$build/fnkit" 2>/dev/null | awk '$1 == "libc.so.6" { print $3 }')
doors=$(mktemp)
trap 'rm -f "$doors"' EXIT
[ -z "$libc" ] || nm -D --defined-only "$libc" | awk '{ sub(/@.*/, "", $3); print $3 }' >"$doors"
for program in fnd fnkit fnd-plugprobe; do
    [ -e "$build/$program" ] || continue
    n=$((n + 1))
    got=$(nm -D --defined-only "$build/$program" | awk '{ print $3 }' | grep -v '@')
    [ "$program" != fnkit ] || got=$(echo "$got" | grep -vxFf "$doors")
    [ "$program" != fnd ] || got=$(echo "$got" | grep -vx -e _exit -e _Exit)
    got=$(echo "$got" | tr '\n' ' ' | sed 's/^ *$//')
    if [ -n "$got" ]; then
        echo "FAILED: $build/$program exports $got; expected nothing"
        failed=$((failed + 1))
    fi
done
echo "$n files, $failed failed"
[ "$n" -ge 6 ] && [ "$failed" -eq 0 ]
