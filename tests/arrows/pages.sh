#!/bin/sh
# What pages for developers name must be there: docs/internals, CONTRIBUTING.md, STYLE.md,
# SECURITY.md. In back quotes:
#
#   `core/lb/call.c`            a file or folder of the tree
#   `call.c:on_found()`         a function that is defined in this file of the page's folder, which
#                               stands in the page's title: "# core/lb: ..."
#   `core/lb/call.c:offer()`    the same with its folder
#   `offer()`                   a function, macro or member of a table that is somewhere in the tree
#   `struct lb_call`, `LB_DONE` a type; a constant
#
# Links to files are followed too. Usage: pages.sh <source folder>
set -u
root=$1
failed=0
n=0
names=$(mktemp)
told=$(mktemp)
trap 'rm -f "$names" "$told"' EXIT

complain() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# Every word of the sources, once: types, constants and functions are looked up there.
find "$root/core" "$root/include" "$root/plugins" "$root/sim" "$root/tools" "$root/tests" \
    -name '*.[ch]' -exec cat {} + | grep -oE 'struct [a-z_0-9]+|[A-Za-z_][A-Za-z_0-9]*\(|[A-Z][A-Z_0-9]+|\*[a-z_0-9]+\)\(' |
    sed 's/^\*\([a-z_0-9]*\))($/\1(/' | sort -u >"$names"

# has_function FILE NAME: it begins a line there, as a definition does, or is a macro.
has_function() {
    grep -qE "^(#define $2\(|[A-Za-z].*[ *]$2\(|$2\()" "$1"
}

check_word() {
    case $2 in
    *[!A-Za-z0-9_./:\(\)\ -]*) return ;; # a command, a line of code
    *.c:*\(\) | *.h:*\(\))
        file=${2%%:*}
        name=${2#*:}
        name=${name%??}
        case $file in */*) ;; *) file=$3/$file ;; esac
        if [ ! -f "$root/$file" ]; then
            complain "$1: \`$2\`: there is no $file"
        elif ! has_function "$root/$file" "$name"; then
            complain "$1: \`$2\`: $file has no function $name()"
        fi
        ;;
    *\ *\ *) return ;;
    struct\ *) grep -qx "$2" "$names" || complain "$1: \`$2\`: there is no such type" ;;
    *\ *) return ;;
    *\(\))
        grep -qxF "${2%?}" "$names" || complain "$1: \`$2\`: there is no such function" ;;
    core/* | tests/* | tools/* | docs/* | scripts/* | include/* | plugins/* | sim/* | cmake/* | bench/*)
        [ -e "$root/$2" ] || complain "$1: \`$2\`: there is no such file" ;;
    *.c | *.h)
        [ -f "$root/$3/$2" ] || [ -f "$root/tests/unit/${3#core/}/$2" ] || [ -f "$root/core/$2" ] ||
            complain "$1: \`$2\`: there is no such file in $3 and its tests" ;;
    CTR_* | LB_[A-Z]* | RC_* | CONN_* | PEER_* | NPM_[A-Z]* | FNSOCK_* | EXCHANGE_* | BREAKER_* | \
        ENGINE_* | SEEN_* | IMAGE_* | SIDE_* | GENERATION_* | PLACE_* | SESSION_* | OP_*)
        grep -qx "$2" "$names" || complain "$1: \`$2\`: there is no such constant" ;;
    *) return ;;
    esac
    n=$((n + 1))
}

for page in "$root"/docs/internals/*.md "$root/CONTRIBUTING.md" "$root/STYLE.md" \
    "$root/SECURITY.md"; do
    [ -f "$page" ] || { complain "there is no $page"; continue; }
    short=${page#"$root"/}
    folder=$(sed -n '1s/^# \([a-z/]*\):.*/\1/p' "$page")
    sed '/^```/,/^```/d' "$page" | grep -oE '`[^`]+`' | tr -d '`' | sort -u >"$told"
    n=$((n + 1))
    out=$(sed '/^```/,/^```/d' "$page" | awk -F '`' 'NF && NF % 2 == 0 { print }')
    [ -z "$out" ] || complain "$short: back quotes that end on another line: $out"
    while read -r word; do
        check_word "$short" "$word" "$folder"
    done <"$told"
    grep -oE '\]\([^)#:]+' "$page" | sed 's/^](//' | sort -u >"$told"
    while read -r link; do
        n=$((n + 1))
        [ -e "${page%/*}/$link" ] || complain "$short links to $link, which is not there"
    done <"$told"
done

# Each state of each machine is told of.
find "$root/core" -name '*.c' -exec grep -ohE '^ *\[[A-Z][A-Z_]*\] = (STATE\(|0,)' {} + |
    sed 's/.*\[\(.*\)\].*/\1/' | sort -u >"$told"
while read -r state; do
    n=$((n + 1))
    grep -qF "\`$state\`" "$root"/docs/internals/*.md ||
        complain "$state is a state that no page in docs/internals tells of"
done <"$told"
[ -s "$told" ] || complain "no tables of states were found"

# Each room has its page.
for room in "$root"/core/*; do
    n=$((n + 1))
    grep -q "^# core/${room##*/}:\|^## core/${room##*/}\$" "$root"/docs/internals/*.md ||
        complain "core/${room##*/} has no page in docs/internals"
done

echo "$n checks, $failed failed"
[ "$failed" -eq 0 ]
