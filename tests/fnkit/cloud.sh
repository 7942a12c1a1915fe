#!/bin/sh
# A cloud for samples/cp-exec: machines are lines of a file, requests are files.
set -eu
cd "$FNKIT_DIR"
touch machines
case $1 in
list) awk -v g="$2" '$1 == g { print $2, "ready", "10.0.0.1:9190", "1024" }' machines ;;
provision)
    if [ ! -e "request-$4" ]; then
        i=0
        while [ "$i" -lt "$3" ]; do
            i=$((i + 1))
            echo "$2 m-$4-$i" >>machines
        done
        echo "$3" >"request-$4"
    fi
    cat "request-$4"
    ;;
remove)
    awk -v id="$3" '$2 != id' machines >left
    mv left machines
    ;;
esac
