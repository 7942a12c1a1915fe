#!/bin/bash
# The driver contract over Podman's Docker API: a service and images of the test's own.
# Usage: with-podman.sh PROGRAM
set -eu
root=$(cd "$(dirname "$0")/../../.." && pwd)
. "$root/scripts/lib/podman.sh"
if ! command -v podman >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "skipped: no podman, or not root"
    exit 77
fi
mkdir -p /var/lib/fnd-test
dir=$(mktemp -d /var/lib/fnd-test/podman-XXXXXX)
trap 'podman_remove "$dir"; rmdir --ignore-fail-on-non-empty /var/lib/fnd-test' EXIT
podman_make "$dir"
export DOCKER_HOST=unix://$dir/podman.sock
"$root/scripts/build-images" hello misbehave
"$1"
