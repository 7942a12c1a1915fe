#!/bin/sh
# The same worlds twice, with other bytes in fresh memory and in another order: equal hashes.
# Usage: world_repeat.sh <program>
set -eu
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
"$1" --seeds 1..20 --hash | head -n 20 >"$tmp/once"
for seed in $(seq 20 -1 1); do
    MALLOC_PERTURB_=165 "$1" --seeds "$seed" --hash | head -n 1
done | sort -n >"$tmp/again"
diff "$tmp/once" "$tmp/again" || { echo "FAILED: one seed gave two worlds"; exit 1; }
lines=$(cut -d' ' -f2 "$tmp/once" | sort -u | wc -l)
[ "$lines" -eq 20 ] || { echo "FAILED: $lines different worlds; expected 20"; exit 1; }
echo "20 worlds, twice, equal hashes"
