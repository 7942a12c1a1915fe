#!/bin/sh
# What pages name must be there.
#
# All pages: files and headings that they link to, commands of fnd, keys of fn.yaml, metrics.
# Pages for developers (docs/internals, CONTRIBUTING.md, STYLE.md, SECURITY.md), in back quotes:
#
#   `core/lb/call.c`            a file or folder of the tree
#   `call.c:on_found()`         a function that is defined in this file of the page's folder, which
#                               stands in the page's title: "# core/lb: ..."
#   `core/lb/call.c:offer()`    the same with its folder
#   `offer()`                   a function, macro or member of a table that is somewhere in the tree
#   `struct lb_call`, `LB_DONE` a type; a constant
#
# Usage: pages.sh <source folder>
set -u
root=$1
failed=0
n=0
names=$(mktemp)
told=$(mktemp)
trap 'rm -f "$names" "$names.wrong" "$told"' EXIT

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
done

# Every page: lines "page:kind:what", of links, headings as GitHub names them, commands, keys,
# metrics. What stands in a block of code counts as a command alone.
all_pages() {
    find "$root" -name '*.md' ! -path "$root/build*" ! -path "$root/.*" ! -path '*/node_modules/*' |
        sort
}
LC_ALL=C all_pages | xargs awk -v root="$root/" '
    function each(text, re, kind,    found) {
        while (match(text, re)) {
            found = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            print page ":" kind ":" found
        }
    }
    FNR == 1 { page = substr(FILENAME, length(root) + 1); code = 0; delete twice }
    /^ *```/ { code = !code; next }
    { each($0, "(^|[ `/])fnd [a-z]+", "command") }
    code || /^    / { next }
    /^#+ / {
        slug = tolower($0)
        sub(/^#+ /, "", slug)
        gsub(/\]\([^)]*\)/, "", slug)
        gsub(/[^a-z0-9_ -]/, "", slug)
        gsub(/ /, "-", slug)
        print page ":heading:" slug (slug in twice ? "-" twice[slug] : "")
        twice[slug]++
    }
    {
        each($0, "\\]\\([^)]+\\)", "link")
        each($0, "`(log|http|grpc|lb|runner|npm|admin|plugins)\\.[a-z_]+[`:]", "key")
        each($0, "`fn_[a-z_0-9]+[`{]", "metric")
    }' >"$told"

# Pages that cmake/fnd-dev/install.cmake installs, whose links must lead to others of them; those
# for developers stand there because others name them.
is_in_kit() {
    case $1 in
    docs/architecture.md | docs/dependencies.md | docs/decisions/*) return 1 ;;
    docs/*) return 0 ;;
    *) return 1 ;;
    esac
}
is_for_developers() { case $1 in docs/internals/*) return 0 ;; *) return 1 ;; esac; }

count() { n=$((n + $(grep -c "$1" "$told"))); }

count ':link:'
while IFS=: read -r page kind link; do
    [ "$kind" = link ] || continue
    link=${link#"]("}
    link=${link%")"}
    case $link in http:* | https:* | mailto:*) continue ;; esac
    to=${link%%#*}
    case $page in */*) dir=${page%/*}/ ;; *) dir= ;; esac
    case $to in
    '') target=$page ;;
    *./*) target=$(realpath -ms --relative-to="$root" "$root/$dir$to") ;;
    *) target=$dir$to ;;
    esac
    [ -e "$root/$target" ] || { complain "$page links to $link, which is not there"; continue; }
    is_in_kit "$page" && ! is_for_developers "$page" && ! is_in_kit "$target" &&
        complain "$page links to $link, which the kit for plugin vendors has not"
    case $link in *.md#* | \#*)
        grep -qxF "$target:heading:${link#*#}" "$told" ||
            complain "$page links to $link: $target has no such heading" ;;
    esac
done <"$told"

# The usage of fnd names its commands; words after "fnd" in a sentence are not all commands.
count ':command:'
usage=$(grep -ohE '"[ u].* *fnd [a-z|]+|^ *"       fnd [a-z|]+' "$root/core/cli/cli.c" |
    grep -oE 'fnd [a-z|]+' | cut -c5- | tr '|' '\n' | sort -u)
[ "$(echo "$usage" | wc -l)" -gt 8 ] || complain "the usage of fnd was not found in core/cli/cli.c"
grep ':command:[`/]fnd ' "$told" | while IFS=: read -r page _ command; do
    case ${command#*fnd } in or | ended | crashed | serving) continue ;; esac # what it logs
    echo "$usage" | grep -qx "${command#*fnd }" || echo "$page: ${command#?}"
done >"$names"
[ ! -s "$names" ] || complain "commands that fnd does not have: $(tr '\n' ';' <"$names")"

# Keys: rows of docs/fn-yaml.md, below the heading of their section.
count ':key:'
awk '/^## / { s = ""; if (match($0, /`[a-z]+:`/)) s = substr($0, RSTART + 1, RLENGTH - 3) }
    /^### / { s = "" }
    s && match($0, /^\| `[a-z_]+` \|/) { print s "." substr($0, 4, RLENGTH - 6) }' \
    "$root/docs/fn-yaml.md" | sort -u >"$names"
grep ':key:' "$told" | sort -u | while IFS=: read -r page _ key _; do
    key=${key#?} key=${key%'`'}
    case $key in *.c) continue ;; esac # a file
    grep -qx "$key" "$names" || echo "$page: $key"
done >"$names.wrong"
[ ! -s "$names.wrong" ] || complain "keys that docs/fn-yaml.md does not have: $(tr '\n' ';' <"$names.wrong")"

# Metrics: rows of docs/metrics.md. abi.md has names of C, compatibility.md and fn-metrics.md
# metrics of Go Fn alone.
count ':metric:'
grep -oE '^\| `[a-z_0-9]+`' "$root/docs/metrics.md" | tr -d '|` ' | sort -u >"$names"
grep ':metric:' "$told" | sort -u | grep -v '^docs/abi.md\|^docs/compatibility.md\|^docs/fn-metrics.md\|:`fn_id`' | while IFS=: read -r page _ metric; do
    metric=${metric#?} metric=${metric%['`{']}
    grep -qx "$metric" "$names" || echo "$page: $metric"
done >"$names.wrong"
[ ! -s "$names.wrong" ] || complain "metrics that docs/metrics.md does not have: $(tr '\n' ';' <"$names.wrong")"

# The broker answers its owner's runner alone: unit, example and page name the same one.
owner=$(sed -n 's/^ExecStart=.* --owner \([a-z0-9-]*\) .*/\1/p' "$root/etc/systemd/fnd-docker-broker.service")
for file in core/cli/init/runner.yaml docs/install.md; do
    n=$((n + 1))
    [ -n "$owner" ] && grep -qE "^[ #]+owner: $owner( #.*)?\$" "$root/$file" ||
        complain "$file: expected owner: ${owner:-that of the unit}, as fnd-docker-broker.service has it"
done

# Each decision has its row, its date and its parts.
for page in "$root"/docs/decisions/[0-9]*.md; do
    n=$((n + 1))
    grep -qF "(${page##*/})" "$root/docs/decisions/README.md" ||
        complain "docs/decisions/README.md has no row of ${page##*/}"
    sed -n 3p "$page" | grep -qE '^20[0-9]{2}-[0-9]{2}-[0-9]{2}$' &&
        grep -qx '## Context' "$page" && grep -qx '## Decision' "$page" ||
        complain "${page##*/}: expected a date in line 3, Context and Decision"
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

# Each table of states has the test that walks its illegal steps.
find "$root/core" -name '*.c' -exec grep -ohE '^const struct states [a-z_]+' {} + |
    sed 's/.* //' | sort -u >"$told"
while read -r machine; do
    n=$((n + 1))
    grep -rqF "machine_tests(&$machine," "$root/tests/unit" ||
        complain "$machine is a table of states without machine_tests()"
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
