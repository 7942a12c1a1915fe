#!/bin/sh
# No test without THREADS (fnd_test in cmake/fnd.cmake) can start one: it would be hidden from
# ThreadSanitizer. Usage: one-thread.sh <program>...
set -eu
rc=0
for program in "$@"; do
    if nm "$program" | grep -q ' U pthread_create'; then
        echo "FAILED: $program calls pthread_create(): its fnd_test() says THREADS"
        rc=1
    fi
done
[ $# -ge 50 ] || { echo "FAILED: $# programs; expected those of most rooms"; rc=1; }
echo "$# programs have one thread"
exit $rc
