#!/bin/sh
# Each public header compiles alone as C11 and as C++17, without a byte of hidden padding, and keeps
# the layout that is pinned in layout.h. Usage: check.sh <source folder> <C compiler>
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

flags="-fsyntax-only -Wall -Wextra -Wpadded -Wpedantic -Werror -I$root/include"
cxx=
for candidate in c++ g++ clang++; do
    if command -v "$candidate" >/dev/null 2>&1; then
        cxx=$candidate
        break
    fi
done

for header in "$root"/include/fn/*.h; do
    try "$cc" -x c -std=c11 $flags -include "$header" /dev/null
    if [ -n "$cxx" ]; then
        try "$cxx" -x c++ -std=c++17 $flags -include "$header" /dev/null
    fi
    # Nothing but <stddef.h>, <stdint.h> and each other.
    bad=$(sed -n 's/^ *# *include *//p' "$header" | grep -v '^<stddef.h>' | grep -v '^<stdint.h>' |
        grep -v '^<fn/[a-z]*\.h>')
    n=$((n + 1))
    if [ -n "$bad" ]; then
        echo "FAILED: $header includes $bad; expected <stddef.h>, <stdint.h> or <fn/...>"
        failed=$((failed + 1))
    fi
done

for compiler in gcc clang; do
    if command -v "$compiler" >/dev/null 2>&1; then
        try "$compiler" -x c -std=c11 -fsyntax-only -I"$root/include" -include stddef.h \
            -include "$root/tests/abi/layout.h" /dev/null
    fi
done
if [ -n "$cxx" ]; then
    try "$cxx" -x c++ -std=c++17 -fsyntax-only -I"$root/include" -include stddef.h \
        -include "$root/tests/abi/layout.h" /dev/null
else
    echo "no C++ compiler here: C++ was not tried"
fi

# Words with a width of their own have no place in what crosses the border.
words='\<(enum|bool|_Bool|long|short|time_t|off_t|ssize_t|FILE|_Atomic)\>'
found=$(sed 's@/\*.*\*/@@; /\/\*/,/\*\//d' "$root"/include/fn/*.h | grep -nE "$words" |
    grep -v 'unsigned long long' || true)
n=$((n + 1))
if [ -n "$found" ]; then
    echo "FAILED: words without a fixed width in include/fn: $found"
    failed=$((failed + 1))
fi

echo "$n checks, $failed failed"
[ "$failed" -eq 0 ]
