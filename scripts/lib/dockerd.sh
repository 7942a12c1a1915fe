# Sourced by bash: a Docker engine for tests.
#
# dockerd_ensure   Uses the engine that DOCKER_HOST or the default socket leads to, if it answers.
#                  Otherwise, as root, starts one of our own and exports DOCKER_HOST. Returns 1,
#                  after one line on stderr with the reason, when there is none to be had.
# dockerd_stop     Ends an engine that dockerd_ensure started and takes away what it left behind:
#                  containers, images, mounts, bridge, firewall rules. Does nothing to another's.
#
# FND_DOCKER_DIR     Private directory of our own engine: data, socket, log. It is emptied at the
#                    end. Default: /var/lib/fnd-test/docker-PID, below $TMPDIR if that is read-only.
# FND_DOCKER_SOCKET  Where it listens. Default: FND_DOCKER_DIR/docker.sock.
#
# Machines differ: the first storage driver of overlay2, fuse-overlayfs, vfs that works is taken,
# iptables is used as nft or as legacy, whichever the kernel has, else not at all, and a missing
# cgroup mount is made.

DOCKERD_START_S=60
DOCKERD_STOP_S=30

dockerd_pid=""
dockerd_dir=""
dockerd_socket=""
dockerd_made_cgroup=""

# Behind || a caller's set -e is off, so that each step may fail and be judged.
dockerd_ensure() {
    dockerd_find_or_start || return 1
}

dockerd_stop() {
    [ -z "$dockerd_dir" ] || dockerd_end || true
}

# The rest is private to this file.

dockerd_answers() {
    timeout 10 docker version >/dev/null 2>&1
}

dockerd_find_or_start() {
    local tool
    if dockerd_answers; then
        return 0
    fi
    if [ "$(id -u)" != 0 ]; then
        echo "dockerd: no engine answers, and only root can start one" >&2
        return 1
    fi
    for tool in docker dockerd containerd runc; do
        if ! PATH=$PATH:/usr/sbin:/sbin command -v $tool >/dev/null; then
            echo "dockerd: no engine answers, and $tool is not installed" >&2
            return 1
        fi
    done
    dockerd_dir_make || return 1
    dockerd_state_save
    dockerd_cgroup_mount
    dockerd_start_any
}

dockerd_end() {
    if [ -n "$dockerd_pid" ]; then
        docker ps -aq 2>/dev/null | xargs -r docker rm -f >/dev/null 2>&1
        docker network prune -f >/dev/null 2>&1 # fnd0 and its rules outlive the engine, too
        dockerd_process_end
    fi
    dockerd_state_restore
    if [ -n "$dockerd_made_cgroup" ]; then
        umount /sys/fs/cgroup 2>/dev/null
    fi
    # Never delete through a mount that would not go away.
    if dockerd_unmount; then
        rm -rf "${dockerd_dir:?}"
    else
        echo "dockerd: mounts are left in $dockerd_dir" >&2
    fi
    rmdir /var/lib/fnd-test 2>/dev/null
    unset DOCKER_HOST
    dockerd_dir="" dockerd_pid="" dockerd_made_cgroup=""
}

dockerd_dir_make() {
    dockerd_dir=${FND_DOCKER_DIR:-/var/lib/fnd-test/docker-$$}
    if ! mkdir -p "$dockerd_dir" 2>/dev/null || ! [ -w "$dockerd_dir" ]; then
        dockerd_dir=${TMPDIR:-/tmp}/fnd-test-docker-$$
        mkdir -p "$dockerd_dir" || return 1
    fi
    chmod 0700 "$dockerd_dir"
    if [ -n "$(ls -A "$dockerd_dir")" ]; then
        echo "dockerd: $dockerd_dir is not empty; expected a directory of its own" >&2
        dockerd_dir=""
        return 1
    fi
    dockerd_socket=${FND_DOCKER_SOCKET:-$dockerd_dir/docker.sock}
}

# An engine switches forwarding on and closes the FORWARD chain when it does; both outlive it.
dockerd_state_save() {
    dockerd_forward_before=$(cat /proc/sys/net/ipv4/ip_forward 2>/dev/null)
    dockerd_bridge_before=$(ip -o link show docker0 2>/dev/null)
    dockerd_config_before=$(ls -d /etc/docker 2>/dev/null)
    dockerd_key_before=$(ls -d /etc/docker/key.json 2>/dev/null)
    dockerd_run_before=$(ls -d /run/docker /run/containerd 2>/dev/null)
    dockerd_iptables_choose
    dockerd_policy_before=$(dockerd_ipt iptables -S FORWARD 2>/dev/null |
        sed -n 's/^-P FORWARD //p')
}

dockerd_state_restore() {
    local table
    if [ -z "$dockerd_bridge_before" ]; then
        ip link delete docker0 2>/dev/null
        for table in filter nat; do
            dockerd_ipt iptables-save -t $table 2>/dev/null | grep -v -i docker |
                dockerd_ipt iptables-restore -T $table 2>/dev/null
        done
    fi
    if [ -n "$dockerd_policy_before" ]; then
        dockerd_ipt iptables -P FORWARD "$dockerd_policy_before"
    fi
    if [ -n "$dockerd_forward_before" ]; then
        echo "$dockerd_forward_before" >/proc/sys/net/ipv4/ip_forward
    fi
    [ -n "$dockerd_key_before" ] || rm -f /etc/docker/key.json
    [ -n "$dockerd_config_before" ] || rmdir /etc/docker 2>/dev/null
    if [ -z "$dockerd_run_before" ]; then
        find /run/docker /run/containerd -depth -type d -empty -delete 2>/dev/null
    fi
    rm -f "$dockerd_socket"
}

# dockerd calls iptables by name, so a directory in front of PATH decides which one that is.
dockerd_iptables_choose() {
    local flavour name
    dockerd_bin=$dockerd_dir/bin
    mkdir -p "$dockerd_bin"
    for flavour in nft legacy; do
        [ -x "/usr/sbin/iptables-$flavour" ] || continue
        if "/usr/sbin/iptables-$flavour" -t nat -L -n >/dev/null 2>&1; then
            for name in iptables ip6tables; do
                ln -sf "/usr/sbin/$name-$flavour" "$dockerd_bin/$name"
                ln -sf "/usr/sbin/$name-$flavour-save" "$dockerd_bin/$name-save"
                ln -sf "/usr/sbin/$name-$flavour-restore" "$dockerd_bin/$name-restore"
            done
            dockerd_net_options=""
            return
        fi
    done
    dockerd_net_options="--iptables=false --ip6tables=false --ip-masq=false"
}

dockerd_ipt() {
    local tool=$1
    shift
    [ -x "$dockerd_bin/$tool" ] && "$dockerd_bin/$tool" "$@"
}

dockerd_cgroup_mount() {
    if ! grep -q ' cgroup2\? ' /proc/mounts; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup 2>/dev/null && dockerd_made_cgroup=1
    fi
}

dockerd_start_any() {
    local driver
    for driver in overlay2 fuse-overlayfs vfs; do
        if [ $driver = fuse-overlayfs ] && ! command -v fuse-overlayfs >/dev/null; then
            continue
        fi
        if dockerd_start $driver; then
            return 0
        fi
        dockerd_process_end
    done
    echo "dockerd: it does not start; the end of its log:" >&2
    tail -n 5 "$dockerd_dir/log" >&2
    dockerd_end
    return 1
}

# Returns 1 when it ends, does not answer in time, or answers but cannot make a container.
dockerd_start() {
    local deadline=$((SECONDS + DOCKERD_START_S))
    export DOCKER_HOST=unix://$dockerd_socket
    # Its own session: an interrupt at the terminal is for the tests, which then stop it in order.
    # shellcheck disable=SC2086
    PATH=$dockerd_bin:$PATH:/usr/sbin:/sbin setsid dockerd --host "$DOCKER_HOST" \
        --data-root "$dockerd_dir/data" --exec-root "$dockerd_dir/exec" \
        --pidfile "$dockerd_dir/pid" --storage-driver "$1" $dockerd_net_options \
        >>"$dockerd_dir/log" 2>&1 </dev/null &
    dockerd_pid=$!
    while ! dockerd_answers; do
        if ! kill -0 $dockerd_pid 2>/dev/null || [ $SECONDS -ge $deadline ]; then
            return 1
        fi
        sleep 0.1
    done
    dockerd_try
}

# Some drivers start and then fail on the first layer.
dockerd_try() {
    local id rc=1
    if tar -c -T /dev/null | docker import --change 'ENTRYPOINT ["/none"]' - fnd/try >/dev/null 2>&1
    then
        id=$(docker create fnd/try 2>/dev/null) && rc=0
        [ -z "$id" ] || docker rm -f "$id" >/dev/null 2>&1
        docker rmi fnd/try >/dev/null 2>&1
    fi
    return $rc
}

dockerd_process_end() {
    local deadline=$((SECONDS + DOCKERD_STOP_S)) containerd
    [ -n "$dockerd_pid" ] || return 0
    containerd=$(cat "$dockerd_dir/exec/containerd/containerd.pid" 2>/dev/null)
    kill $dockerd_pid 2>/dev/null
    while kill -0 $dockerd_pid 2>/dev/null && [ $SECONDS -lt $deadline ]; do
        sleep 0.1
    done
    kill -9 $dockerd_pid 2>/dev/null && [ -n "$containerd" ] && kill -9 "$containerd" 2>/dev/null
    wait $dockerd_pid 2>/dev/null
    dockerd_pid=""
}

# Deepest first. Returns 1 when a mount stays.
dockerd_unmount() {
    local point
    awk -v dir="$dockerd_dir/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
        while read -r point; do
            umount "$point" 2>/dev/null || umount -l "$point" 2>/dev/null
        done
    ! awk -v dir="$dockerd_dir/" 'index($5, dir) == 1 { found = 1 } END { exit !found }' \
        /proc/self/mountinfo
}
