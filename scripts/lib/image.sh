# Sourced by bash: images without a registry. What is in the directory $stage becomes the image.

# image_import NAME CHANGE...: an image of what is staged. Its digest is kept as a label, and the
# tar carries no times or owners, so that equal content is recognised.
image_import() {
    local image=fnd/$1:latest digest old change
    local -a changes=()
    shift
    for change in "$@"; do
        changes+=(--change "$change")
    done
    tar -C "$stage" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -c . >"$stage.tar"
    digest=$( (cat "$stage.tar" && echo "$*") | sha256sum | cut -d' ' -f1)
    old=$(docker image inspect --format '{{.Id}} {{index .Config.Labels "fnd.digest"}}' "$image" \
        2>/dev/null || true)
    if [ "${old#* }" = "$digest" ]; then
        echo "$image is up to date"
    else
        docker import "${changes[@]}" --change "LABEL fnd.digest=$digest" - "$image" \
            <"$stage.tar" >/dev/null
        [ -z "$old" ] || docker rmi "${old%% *}" >/dev/null 2>&1 || true
        echo "$image"
    fi
    rm -rf "$stage.tar" "${stage:?}"/*
}

# image_libraries FILE...: the shared libraries that programs and plugins are linked with, staged
# where the loader looks for them.
image_libraries() {
    local lib
    ldd "$@" | grep -o '/[^ :]* ' | sort -u | while read -r lib; do
        mkdir -p "$stage$(dirname "$lib")"
        cp -L "$lib" "$stage$lib"
    done
}
