# Sourced: builds the tree.
#
# build_tree DIR [cmake arguments ...]   configures DIR below the project's root and builds all,
#                                        with the tests unless told otherwise: the quickstart's
#                                        build without them stays in the cache of the same folder.

# A compiler that writes what a file includes need not read it twice: a seventh less for a cold cache.
export CCACHE_DEPEND=1

build_tree() {
    local dir=$1
    shift
    cmake -S "$root" -B "$root/$dir" -G Ninja -DCMAKE_C_COMPILER_LAUNCHER=ccache \
        -DFND_TESTS=ON "$@" >/dev/null
    ninja -C "$root/$dir" --quiet
}

# build_beside DIR [cmake arguments ...]   the same beside something else, with the time that this
#                                          leaves: tests wait for half of their time
# build_await                              its end
build_beside() {
    (
        renice -n 19 -p "$BASHPID" >/dev/null
        build_tree "$@"
    ) &
    build_pid=$!
}

build_await() {
    wait "$build_pid" || {
        echo "the build beside the tests failed: its errors are further up" >&2
        return 1
    }
}
