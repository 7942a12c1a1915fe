# Sourced: a seed is the same world, bit for bit, whoever compiled it. Needs $root.
#
# worlds_are_same BUILD ...   compares the hashes that fnd_sim of each build prints; at a difference, one
#                             line says which build has another world than the first one, and 1

WORLDS_SEEDS=1..20

# Leaves lines "seed hash" in OUT/<build>, or in OUT/<build>.errors why not.
worlds_of() { # BUILD OUT
    "$root/$1/fnd_sim" --hash --seeds $WORLDS_SEEDS 2>"$2/$1.errors" | grep -E '^[0-9]+ [0-9a-f]{16}$' >"$2/$1"
}

worlds_are_same() {
    local build out first same=0
    local -A pids=()
    out=$(mktemp -d)
    for build in "$@"; do
        worlds_of "$build" "$out" &
        pids[$build]=$!
    done
    for build in "$@"; do
        if ! wait "${pids[$build]}"; then
            cat "$out/$build.errors"
            echo "worlds: $build/fnd_sim tells of none"
            same=1
            continue
        fi
        first=${first:-$build}
        if ! cmp -s "$out/$first" "$out/$build"; then
            echo "worlds: $build has another one than $first: $(diff "$out/$first" "$out/$build" | sed -n '/^[<>]/p' | head -2 | tr '\n' ' ');" \
                "repeat: $build/fnd_sim --hash --seeds $WORLDS_SEEDS"
            same=1
        fi
    done
    [ $same != 0 ] || echo "worlds: $(wc -l <"$out/$first") are the same in $*"
    rm -rf "$out"
    return $same
}
