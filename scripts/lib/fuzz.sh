# Sourced: what scripts/fuzz and the fuzzing in scripts/test share. Needs $root.
#
# fuzz_build [TARGET ...]        builds the fuzzers and these targets in build-fuzz, with clang
# fuzz_targets                   their names, one a line
# fuzz_run TARGET LEARNT LOG [FLAGS ...]
#                                one of them over the inputs in the tree and what was learnt in the folder
#                                LEARNT, where it leaves what it learns; libFuzzer's report goes to LOG
# fuzz_number NAME LOG           one of its last words
# fuzz_beside                    builds and runs each target in turn beside something else, with the time
#                                that this leaves
# fuzz_wait                      until it has ended, if it was begun
# fuzz_await                     its end: a line each; FUZZ_PASSED and FUZZ_FAILED are set
# fuzz_stop                      no more targets; the one that runs ends by itself

FUZZ_INPUT_BYTES_MAX=4096
FUZZ_SECONDS=20        # a target
FUZZ_SEED=20           # beside the tests the same ways are gone first each time
FUZZ_INPUT_SECONDS=60  # for one input: machines are busy, and an input needs some milliseconds
FUZZ_MEMORY_MB=2048
FUZZ_REPORT_LINES=60   # of what libFuzzer said about a finding

fuzz_build() {
    cmake -S "$root" -B "$root/build-fuzz" -G Ninja -DCMAKE_C_COMPILER=clang \
        -DCMAKE_C_COMPILER_LAUNCHER=ccache -DFND_SANITIZE=address -DFND_FUZZ=ON -DFND_TESTS=ON >/dev/null &&
        ninja -C "$root/build-fuzz" --quiet fuzz_all "$@"
}

fuzz_targets() {
    (cd "$root/build-fuzz/tests" && ls -d fuzz_*) | sed 's/^fuzz_//'
}

# Bytes alone do not make keys: those of fn.yaml are those of its page.
fuzz_words_of() {
    [ "$1" = yaml ] || return 0
    sed -n 's/^| `\([a-z_.]*\)` .*/"\1"/p' "$root/docs/fn-yaml.md" | sort -u >"$root/build-fuzz/yaml.dict"
    echo "-dict=build-fuzz/yaml.dict"
}

fuzz_run() {
    local target=$1 learnt=$2 log=$3
    shift 3
    mkdir -p "$learnt"
    # shellcheck disable=SC2046
    (cd "$root" && "build-fuzz/tests/fuzz_$target" $(fuzz_words_of "$target") "$@" \
        -max_len=$FUZZ_INPUT_BYTES_MAX -print_final_stats=1 -artifact_prefix="build-fuzz/$target-" \
        "$learnt" "tests/fuzz/corpus/$target") >"$log" 2>&1
}

fuzz_number() {
    sed -n "s/^stat::$1: *//p" "$2"
}

fuzz_summary() { # TARGET LOG
    local edges
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$2" | tail -1)
    echo "$1: $(fuzz_number number_of_executed_units "$2") inputs," \
        "$(fuzz_number average_exec_per_sec "$2")/s, ${edges:-0} edges"
}

# The file of the input that failed.
fuzz_artifact() {
    sed -n 's/.*Test unit written to //p' "$1" | tail -1
}

# ---- beside the tests -----------------------------------------------------------------------------

# Copies of the corpora, reports and how each target ended are in FUZZ_DIR.
fuzz_each() {
    local target rc
    fuzz_build world_sim >"$FUZZ_DIR/build.log" 2>&1 || return
    touch "$FUZZ_DIR/built"
    for target in $(fuzz_targets); do
        rc=0
        fuzz_run "$target" "$FUZZ_DIR/corpus/$target" "$FUZZ_DIR/$target.log" -seed=$FUZZ_SEED \
            -max_total_time=$FUZZ_SECONDS -timeout=$FUZZ_INPUT_SECONDS -report_slow_units=$FUZZ_INPUT_SECONDS \
            -rss_limit_mb=$FUZZ_MEMORY_MB || rc=$?
        echo "$target $rc" >>"$FUZZ_DIR/ended"
    done
    echo "$SECONDS" >"$FUZZ_DIR/seconds"
}

fuzz_beside() {
    FUZZ_DIR=$(mktemp -d)
    (
        renice -n 19 -p "$BASHPID" >/dev/null
        SECONDS=0
        fuzz_each
    ) &
    fuzz_pid=$!
}

# An input that took too long beside the tests gets its time once more, now that there is some.
fuzz_is_slow_only() { # TARGET LOG
    local artifact
    artifact=$(fuzz_artifact "$2")
    [[ $artifact == */"$1"-timeout-* ]] &&
        "$root/build-fuzz/tests/fuzz_$1" -timeout=$FUZZ_INPUT_SECONDS "$root/$artifact" >"$2.again" 2>&1
}

fuzz_tell() { # TARGET RC
    local log=$FUZZ_DIR/$1.log artifact
    if [ "$2" = 0 ] || fuzz_is_slow_only "$1" "$log"; then
        FUZZ_PASSED=$((FUZZ_PASSED + 1))
        echo "fuzz $(fuzz_summary "$1" "$log")$([ "$2" = 0 ] || echo "; slow beside the tests: $(fuzz_artifact "$log")")"
        return
    fi
    FUZZ_FAILED=$((FUZZ_FAILED + 1))
    artifact=$(fuzz_artifact "$log")
    tail -n $FUZZ_REPORT_LINES "$log"
    echo "fuzz $1: FAILED on ${artifact:-no input: it ended with $2}; repeat: build-fuzz/tests/fuzz_$1 $artifact"
}

fuzz_wait() {
    [ -z "${fuzz_pid:-}" ] || wait "$fuzz_pid" || true
    fuzz_pid=
}

fuzz_await() {
    local target rc
    FUZZ_PASSED=0 FUZZ_FAILED=0
    fuzz_wait
    if [ ! -e "$FUZZ_DIR/built" ]; then
        cat "$FUZZ_DIR/build.log"
        echo "fuzz: the build of its targets failed: its errors are above"
        FUZZ_FAILED=1
    elif [ ! -e "$FUZZ_DIR/seconds" ]; then
        echo "fuzz: ended before its last target"
        FUZZ_FAILED=1
    else
        while read -r target rc; do
            fuzz_tell "$target" "$rc"
        done <"$FUZZ_DIR/ended"
        echo "fuzz: $(wc -l <"$FUZZ_DIR/ended") targets in $(cat "$FUZZ_DIR/seconds") s with their build"
    fi
    rm -rf "$FUZZ_DIR"
}

fuzz_stop() {
    [ -z "${fuzz_pid:-}" ] || kill "$fuzz_pid" 2>/dev/null || true
    [ -z "${FUZZ_DIR:-}" ] || rm -rf "$FUZZ_DIR"
}
