#!/bin/sh
# Stands in for the shell of cp-process: runners are empty files instead of processes.
# Arguments: -c SCRIPT sh VERB STATE GROUP ...
set -eu
verb=$4
cd "$FNKIT_DIR"
mkdir -p "$6"
cd "$6"
shift 6
case $verb in
list) for id in *; do [ ! -e "$id" ] || echo "ready $id unix:/tmp/$id.sock"; done ;;
provision)
    shift 3
    [ $# -eq 0 ] || touch "$@"
    ;;
remove) rm -f "$1" ;;
esac
