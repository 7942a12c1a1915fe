# Sourced: builds the tree.
#
# build_tree DIR [cmake arguments ...]   configures DIR below the project's root and builds all.

build_tree() {
    local dir=$1
    shift
    cmake -S "$root" -B "$root/$dir" -G Ninja -DCMAKE_C_COMPILER_LAUNCHER=ccache "$@" >/dev/null
    ninja -C "$root/$dir" --quiet
}
