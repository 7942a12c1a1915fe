# Tests are guests: what they make on the machine goes with them. Sourced by scripts/test; $root is
# set.
#
#   guests_arrive    remembers what is there already
#   guests_leave     prints what has come since and is still there; 1 if anything has

GUESTS_WAIT_S=10 # processes end, and mounts go, a moment after the last test
GUESTS_NAMES='fnd-|fnd_|fnk-|fnkit-|fnr-|fdk-test-|iofs-test-|test-|test_|contract-|npm-mutants-'

guests_list() {
    local at
    for at in "${TMPDIR:-/tmp}" /tmp /var/lib /run/fnd; do
        [ -d "$at" ] && find "$at" -mindepth 1 -maxdepth 1 -regextype posix-extended \
            \( -path '/run/fnd/*' -o -regex ".*/($GUESTS_NAMES)[^/]*" \) -not -name 'fnd-test' 2>/dev/null
    done
    # The engine of all tests ends later.
    find /var/lib/fnd-test -mindepth 1 -maxdepth 1 -not -name 'docker-*' 2>/dev/null
    find /var/tmp -mindepth 1 -maxdepth 1 2>/dev/null
    find /sys/fs/cgroup -type d -path '*/fnd/*' 2>/dev/null
    sed -n 's/^[^ ]* \([^ ]*\(fnd\|iofs\)[^ ]*\) .*/mount \1/p' /proc/self/mounts |
        grep -v '^mount /var/lib/fnd-test/docker-' || true
    for at in /proc/[0-9]*; do
        case $(readlink "$at/exe" 2>/dev/null) in
        "$root"/build*) echo "process ${at#/proc/} $(tr '\0' ' ' <"$at/cmdline" 2>/dev/null)" ;;
        esac
    done
    true
}

guests_arrive() {
    guests_before=$(guests_list | sort -u)
}

guests_leave() {
    local left until=$((SECONDS + GUESTS_WAIT_S))
    while :; do
        left=$(comm -13 <(echo "$guests_before") <(guests_list | sort -u))
        [ -n "$left" ] || return 0
        [ "$SECONDS" -lt "$until" ] || break
        sleep 1
    done
    echo "left behind by the tests:"
    echo "$left" | sed 's/^/  /'
    return 1
}
