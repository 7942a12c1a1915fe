#!/bin/bash
# The driver contract through the engine's broker: what the driver asks for, the broker lets through.
# Usage: with-broker.sh PROGRAM
set -eu
engine=${DOCKER_HOST:-unix:///var/run/docker.sock}
engine=${engine#unix://}
if [ ! -S "$engine" ]; then
    echo "skipped: no container engine at $engine"
    exit 77
fi
dir=$(mktemp -d /tmp/fnd-broker-XXXXXX)
export FND_OWNER=test-broker-$$
"$FND_BUILD/fnd-docker-broker" --user "$(id -u)" --iofs /tmp --owner "$FND_OWNER" --engine "$engine" \
    --listen "$dir/docker.sock" 2>"$dir/log" &
broker=$!
trap 'kill $broker; wait $broker || true; rm -r "$dir"' EXIT
for ((i = 0; i < 500; i++)); do
    [ ! -S "$dir/docker.sock" ] || break
    sleep 0.01
done
export DOCKER_HOST=unix://$dir/docker.sock
"$1" || {
    cat "$dir/log"
    exit 1
}
if grep refused "$dir/log"; then
    exit 1
fi
