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
dir=$(mktemp -d /var/lib/fnd-podman-XXXXXX)
trap 'podman_remove "$dir"' EXIT
podman_make "$dir"
export DOCKER_HOST=unix://$dir/podman.sock
"$root/scripts/build-images" hello misbehave
"$1"
