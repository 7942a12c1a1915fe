# Sourced: installs the Debian packages that are missing.
#
# deps_ensure build|test|bench ...   each set of packages is installed once; root or sudo needed
# only when something is missing.

deps_build="gcc cmake ninja-build pkg-config ccache libc6-dev libnghttp2-dev libprotobuf-c-dev
    protobuf-c-compiler libyaml-dev libcurl4-openssl-dev libjansson-dev
    libssl-dev libseccomp-dev libarchive-dev libsqlite3-dev libpq-dev libncurses-dev uthash-dev check libsubunit-dev"
deps_kit="dpkg-dev"
deps_run="curl ca-certificates"
deps_test="libgrpc-dev libhttp-parser-dev abigail-tools binutils g++ make clang libclang-rt-14-dev openssl dpkg-dev
    docker.io podman catatonit containernetworking-plugins runc crun skopeo iptables iproute2 xz-utils procps gdb prometheus golang-go python3 python3-prometheus-client postgresql sqlite3 chromium chromium-driver
    lintian mandoc"
deps_tidy="clang-tidy"
deps_bench="wrk procps"

deps_missing() {
    local p
    for p in "$@"; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || echo "$p"
    done
}

deps_ensure() {
    local set names missing= as=
    for set in "$@"; do
        names="deps_$set"
        # shellcheck disable=SC2086
        missing="$missing $(deps_missing ${!names})"
    done
    case " $* " in
    *" test "* | *" bench "*) # Node.js may come from elsewhere than Debian
        command -v node >/dev/null || missing="$missing nodejs"
        command -v npm >/dev/null || missing="$missing npm"
        ;;
    esac
    # shellcheck disable=SC2086
    missing=$(echo $missing)
    [ -n "$missing" ] || return 0
    [ "$(id -u)" = 0 ] || as=sudo
    echo "installing: $missing" >&2
    $as apt-get update -qq >&2
    # shellcheck disable=SC2086
    DEBIAN_FRONTEND=noninteractive $as apt-get install -y -qq --no-install-recommends $missing \
        >/dev/null
}
