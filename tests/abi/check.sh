#!/bin/sh
# The public headers, today's and the released ones: each compiles alone as C11 and C++17 with every
# compiler that is here, without a byte of hidden padding; sizes, places and numbers are pinned; what was
# released is unchanged but for additions at the end. Usage: check.sh <source folder> <C compiler>
set -u
root=$1
cc=$2
failed=0
n=0

try() {
    n=$((n + 1))
    if ! "$@"; then
        echo "FAILED: $*"
        failed=$((failed + 1))
    fi
}

complain() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

have() {
    command -v "$1" >/dev/null 2>&1
}

ccs=$cc
for c in gcc clang; do
    have "$c" && ccs="$ccs $c"
done
cxxs=
for c in g++ clang++; do
    have "$c" && cxxs="$cxxs $c"
done
[ -n "$cxxs" ] || echo "no C++ compiler here: C++ was not tried"

# ---- each header alone ---------------------------------------------------------------------------

flags="-fsyntax-only -Wall -Wextra -Wpadded -Wpedantic -Werror"
for folder in "$root/include" "$root"/tests/abi/*/include; do
    for header in "$folder"/fn/*.h; do
        for c in $ccs; do
            try "$c" -x c -std=c11 $flags -I"$folder" -include "$header" /dev/null
        done
        for c in $cxxs; do
            try "$c" -x c++ -std=c++17 $flags -I"$folder" -include "$header" /dev/null
        done
        # Nothing but <stddef.h>, <stdint.h> and each other.
        bad=$(sed -n 's/^ *# *include *//p' "$header" | grep -v '^<stddef.h>' | grep -v '^<stdint.h>' |
            grep -v '^<fn/[a-z]*\.h>')
        n=$((n + 1))
        [ -z "$bad" ] || complain "$header includes $bad; expected <stddef.h>, <stdint.h> or <fn/...>"
    done
done

# Words without a width of their own have no place in what crosses the border.
words='\<(enum|bool|_Bool|long|short|time_t|off_t|ssize_t|FILE|_Atomic)\>'
found=$(sed 's@/\*.*\*/@@; /\/\*/,/\*\//d' "$root"/include/fn/*.h | grep -nE "$words" |
    grep -v 'unsigned long long' || true)
n=$((n + 1))
[ -z "$found" ] || complain "words without a fixed width in include/fn: $found"

# ---- pins ----------------------------------------------------------------------------------------

# pins <header with pins> <include folder> [flags]
pins() {
    file=$1 folder=$2
    shift 2
    for c in $ccs; do
        try "$c" -x c -std=c11 -fsyntax-only -Wall -Werror "$@" -I"$folder" -include "$file" /dev/null
    done
    for c in $cxxs; do
        try "$c" -x c++ -std=c++17 -fsyntax-only -Wall -Wno-invalid-offsetof -Werror "$@" \
            -I"$folder" -include "$file" /dev/null
    done
}

pins "$root/tests/abi/layout.h" "$root/include"
for release in "$root"/tests/abi/[0-9]*; do
    pins "$release/pins.h" "$release/include"
    pins "$release/pins.h" "$root/include" -DPIN_GROWN
    n=$((n + 1))
    (cd "$release" && sha256sum --quiet -c SHA256SUMS) ||
        complain "$release: a released header was edited; expected it as in SHA256SUMS"
done

if have node; then
    try node "$root/tests/abi/pins.mjs" "$root/include/fn" "$cc" >"${TMPDIR:-/tmp}/fn-pins.$$"
    n=$((n + 1))
    cmp -s "${TMPDIR:-/tmp}/fn-pins.$$" "$root/tests/abi/layout.h" ||
        complain "tests/abi/layout.h is not that of include/fn; after a change that was meant:" \
            "node tests/abi/pins.mjs include/fn > tests/abi/layout.h"
    rm -f "${TMPDIR:-/tmp}/fn-pins.$$"
    for release in "$root"/tests/abi/[0-9]*; do
        try node "$root/tests/abi/frozen.mjs" "$release/include/fn" "$root/include/fn"
    done
    try node "$root/tests/abi/frozen.test.mjs" "$root"
    try node "$root/tests/abi/documented.mjs" "$root/include/fn" "$root/docs/abi.md"
else
    echo "no node here: changes of released headers were not looked for"
fi

echo "$n checks, $failed failed"
[ "$failed" -eq 0 ]
