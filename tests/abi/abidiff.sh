#!/bin/sh
# Compares the types of today's headers with those of each release, as libabigail sees them in a shared
# object: nothing may have changed but members added at the end. Then tries itself on changed headers.
# Usage: abidiff.sh <source folder> <C compiler>
set -eu
root=$1
cc=$2
here=$root/tests/abi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

command -v abidiff >/dev/null || {
    echo "no abidiff here (package abigail-tools)"
    exit 77
}

# shows <include folder> <output .so>
shows() {
    node "$here/types.mjs" "$1/fn" >"$tmp/types.c"
    "$cc" -g -gdwarf-4 -O0 -fPIC -shared -fvisibility=default -I"$1" "$tmp/types.c" -o "$2"
}

same() {
    # abidiff's own rule for "added at the end" also forgives other changes of that struct.
    abidiff --leaf-changes-only --no-added-syms "$1" "$2" >"$tmp/full" 2>&1 || true
    grep -q '^Leaf changes summary' "$tmp/full" || [ ! -s "$tmp/full" ] || return 1
    awk -f "$here/growth.awk" "$tmp/full" >"$tmp/report"
}

# changed <name> <header> <sed script>: a change that must be found
changed() {
    rm -rf "$tmp/changed"
    cp -r "$root/include" "$tmp/changed"
    sed -i "$3" "$tmp/changed/fn/$2"
    if cmp -s "$tmp/changed/fn/$2" "$root/include/fn/$2"; then
        echo "FAILED: $1: the change did not touch $2"
        failed=1
        return
    fi
    shows "$tmp/changed" "$tmp/changed.so"
    if same "$tmp/today.so" "$tmp/changed.so"; then
        echo "FAILED: $1 was not found"
        failed=1
    fi
}

shows "$root/include" "$tmp/today.so"
for release in "$here"/[0-9]*; do
    if ! same "$release/types.abi" "$tmp/today.so"; then
        echo "FAILED: include/fn against $release:"
        cat "$tmp/full"
        failed=1
    fi
done

node "$here/grow.mjs" "$root/include/fn" "$tmp/grown/fn"
shows "$tmp/grown" "$tmp/grown.so"
if ! same "$tmp/today.so" "$tmp/grown.so"; then
    echo "FAILED: members at the end were taken for a change:"
    cat "$tmp/report"
    failed=1
fi
changed "a member of another type" placer.h 's/int64_t wait_ns;/uint64_t wait_ns;/'
changed "a member in the middle" placer.h 's/uint32_t verdict;/uint32_t verdict; uint32_t more; uint32_t x;/'
changed "a slot with another signature" pool.h 's/int (\*start)(void \*inst,/int (*start)(void *inst, int x,/'
changed "a struct of fixed size that grew" driver.h 's/const char \*value;/const char *value; uint64_t n;/'
changed "a member gone" cplane.h 's/uint64_t capacity_mb;//'

[ "$failed" = 0 ] && echo "the types are those that were released, or longer"
exit "$failed"
