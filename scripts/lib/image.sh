# Sourced by bash: images without a registry. What is in the directory $stage becomes the image: of
# the container engine, or with FND_OCI_STORE of that store of driver-oci, which needs no engine.

# image_store IMAGE CHANGE...: what is in $stage.tar into the store, as an archive of docker save.
image_store() {
    local image=$1 change entry= env= diff
    shift
    for change in "$@"; do
        case $change in
        "ENTRYPOINT "*) entry=${change#ENTRYPOINT } ;;
        "ENV "*) env="$env,\"${change#ENV }\"" ;;
        esac
    done
    diff=$(sha256sum <"$stage.tar" | cut -d' ' -f1)
    mkdir "$stage/archive"
    mv "$stage.tar" "$stage/archive/layer.tar"
    echo "{\"config\":{\"Entrypoint\":$entry,\"Env\":[${env#,}]},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"sha256:$diff\"]}}" \
        >"$stage/archive/config.json"
    echo "[{\"Config\":\"config.json\",\"RepoTags\":[\"$image\"],\"Layers\":[\"layer.tar\"]}]" \
        >"$stage/archive/manifest.json"
    tar -C "$stage/archive" -c . | "$build/fnd-oci" load --store "$FND_OCI_STORE" - >/dev/null
    echo "$image"
}

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
    if [ -n "${FND_OCI_STORE:-}" ]; then
        image_store "$image" "$@"
        rm -rf "${stage:?}"/*
        return
    fi
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
