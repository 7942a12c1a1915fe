# Sourced by bash: Podman services for tests, each with its own data, configuration and network
# namespace, all below one private directory. Root only; several may run side by side.
#
# podman_make DIR            An empty directory becomes a service that answers at
#                            unix://DIR/podman.sock. Returns 1, after a line on stderr, when there
#                            is none to be had; nothing is left then.
# podman_stop DIR [SIGNAL]   Ends the service alone (TERM): its containers go on.
# podman_serve DIR           Starts it again.
# podman_remove DIR          Ends everything and takes it away, DIR too, whatever state it is in.
#
# What Debian 12's Podman 4.3.1 needs here and an operator may need as well: docs/drivers.md.

PODMAN_START_S=60
PODMAN_STOP_S=10

podman_make() {
    if ! podman_prepare "$1" || ! podman_serve "$1"; then
        podman_remove "$1"
        return 1
    fi
}

podman_serve() {
    local dir=$1 pid deadline=$((SECONDS + PODMAN_START_S))
    podman_exec "$dir" system service --time=0 "unix://$dir/podman.sock" \
        >>"$dir/log" 2>&1 </dev/null &
    pid=$!
    echo $pid >"$dir/pid"
    while ! podman_ask "$dir" GET /_ping >/dev/null; do
        if ! kill -0 $pid 2>/dev/null || [ $SECONDS -ge $deadline ]; then
            echo "podman: it does not start; the end of its log:" >&2
            tail -n 5 "$dir/log" >&2
            return 1
        fi
        sleep 0.05
    done
}

podman_stop() {
    local pid deadline=$((SECONDS + PODMAN_STOP_S))
    pid=$(cat "$1/pid" 2>/dev/null) || return 0
    kill "-${2:-TERM}" "$pid" 2>/dev/null
    while podman_lives "$pid" && [ $SECONDS -lt $deadline ]; do
        sleep 0.05
    done
    kill -KILL "$pid" 2>/dev/null
    rm -f "$1/pid" "$1/podman.sock"
    return 0
}

# Behind || a caller's set -e is off, so that each step may fail.
podman_remove() {
    podman_take_away "$1" || true
}

# The rest is private to this file.

podman_take_away() {
    local dir=$1 pid
    podman_stop "$dir"
    if [ -e "$dir/containers.conf" ]; then
        podman_run "$dir" rm -fa --time 0 >/dev/null 2>&1
        podman_run "$dir" network rm -f fnd >/dev/null 2>&1
    fi
    # What a service that was killed did not know of: monitors, and the functions below them.
    for pid in $(pgrep -f "conmon .* $dir/"); do
        kill -KILL $(pgrep -P "$pid") "$pid" 2>/dev/null
    done
    awk -v dir="$dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
        while read -r point; do
            umount -l "$point" 2>/dev/null
        done
    ip netns delete "$(podman_namespace "$dir")" 2>/dev/null
    podman_leftovers
    rm -rf "${dir:?}"
}

podman_namespace() {
    basename "$1"
}

podman_ask() {
    curl -s -f --max-time 10 --unix-socket "$1/podman.sock" -X "$2" "http://podman$3"
}

# A service that nobody has waited for yet is dead all the same.
podman_lives() {
    case $(sed 's/.*) //' "/proc/$1/stat" 2>/dev/null) in "" | Z*) return 1 ;; esac
}

# Not `ip netns exec`, which would hide the cgroups below a /sys of its own. In a session of its own:
# an interrupt at the terminal is for the tests.
podman_exec() {
    local dir=$1
    shift
    # 4.3.1 leaves what was loaded through its API in the temporary folder.
    export CONTAINERS_CONF=$dir/containers.conf TMPDIR=$dir/tmp
    exec setsid nsenter --net="/run/netns/$(podman_namespace "$dir")" podman --root "$dir/root" \
        --runroot "$dir/run" --tmpdir "$dir/tmp" --network-config-dir "$dir/net" \
        --hooks-dir "$dir/hooks" --log-level warn "$@"
}

podman_run() {
    (podman_exec "$@")
}

podman_prepare() {
    local dir=$1 tool
    if [ "$(id -u)" != 0 ]; then
        echo "podman: only root can start a service of its own" >&2
        return 1
    fi
    for tool in podman conmon runc; do
        if ! PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null; then
            echo "podman: $tool is not installed" >&2
            return 1
        fi
    done
    mkdir -p "$dir/hooks" "$dir/tmp" && podman_configure "$dir" && ip netns add "$(podman_namespace "$dir")" &&
        nsenter --net="/run/netns/$(podman_namespace "$dir")" ip link set lo up
}

podman_configure() {
    local dir=$1 runtime=crun
    # crun has no use for a machine with both versions of cgroups.
    [ ! -d /sys/fs/cgroup/unified ] || runtime=runc
    cat >"$dir/containers.conf" <<CONF
[engine]
cgroup_manager = "cgroupfs"
compat_api_enforce_docker_hub = false
conmon_path = ["$dir/conmon"]
events_logger = "file"
lock_type = "file"
runtime = "$runtime"

[network]
network_backend = "cni"
CONF
    # 4.3.1 starts conmon in the service's directory, and looks for what it says of memory in the
    # container's.
    cat >"$dir/conmon" <<'CONMON'
#!/bin/sh
for word; do
    [ "$last" != -b ] || cd "$word"
    last=$word
done
exec /usr/bin/conmon "$@"
CONMON
    chmod +x "$dir/conmon"
    # Raising a limit takes a capability that root may lack. What a function may start is limited by
    # its cgroup.
    cat >"$dir/hooks/limits.json" <<'HOOK'
{
  "version": "1.0.0",
  "hook": {
    "path": "/usr/bin/sed",
    "args": ["sed", "-E", "s/,?\\{\"type\":\"RLIMIT_NPROC\"[^}]*\\}//"]
  },
  "when": { "always": true },
  "stages": ["precreate"]
}
HOOK
}

# Of the machine's: what no container uses any more.
podman_leftovers() {
    rmdir /sys/fs/cgroup{,/*}/libpod_parent{/*,} 2>/dev/null
    if [ -z "$(find /var/lib/cni/networks/fnd -name '[0-9]*' 2>/dev/null)" ]; then
        rm -rf /var/lib/cni/networks/fnd
    fi
}
