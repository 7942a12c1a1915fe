#!/bin/sh
# Every mutant is caught by the case that should see it, and says so; every good template passes.
# Usage: run.sh <fnkit> <folder of the plugins> <mutants.txt>
set -u
fnkit=$1
plugins=$2
table=$3
failed=0
n=0

complain() {
    echo "FAILED: $*"
    failed=$((failed + 1))
}

# What a template's world answers.
script() {
    [ ! -e "${table%/*}/$1.yaml" ] || echo "--script ${table%/*}/$1.yaml"
}

while read -r template number case text; do
    case $template in '' | '#'*) continue ;; esac
    n=$((n + 1))
    # shellcheck disable=SC2046
    out=$("$fnkit" check $(script "$template") --suite "$case" "$plugins/$template-$number.so" 2>&1)
    code=$?
    if [ "$code" -ne 1 ]; then
        complain "$template-$number: $case, got exit code $code; expected 1"
    fi
    case $out in
    *"FAILED"*"$case: "*"$text"*) ;;
    *) complain "$template-$number: $case said \"$out\"; expected \"$text\"" ;;
    esac
done <"$table"

for template in $(grep -v '^#' "$table" | cut -d' ' -f1 | sort -u); do
    n=$((n + 1))
    # shellcheck disable=SC2046
    "$fnkit" check $(script "$template") "$plugins/$template-0.so" || complain "$template-0: expected a pass"
done
echo "$n plugins, $failed failed"
[ "$n" -ge 40 ] && [ "$failed" -eq 0 ]
