#!/bin/sh
# Arguments: -c SCRIPT sh VERB STATE ...; the state becomes the folder of the case.
script=$2
verb=$4
shift 5
exec /bin/sh -c "$script" sh "$verb" "$FNKIT_DIR" "$@"
