#!/bin/sh
# The driver contract over driver-oci: images of the test's own, no engine.
# Usage: with-store.sh RUNTIME PROGRAM
set -eu
if ! command -v "$1" >/dev/null || [ "$(id -u)" != 0 ]; then
    echo "skipped: no $1, or not root"
    exit 77
fi
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
FND_OCI_STORE=$dir/store "$(dirname "$0")/../../../scripts/build-images" hello misbehave
FND_OCI_RUNTIME=$1 FND_OCI_DIR=$dir "$2"
