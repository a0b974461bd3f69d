#!/bin/bash
# Builds the crash tests with one bug on purpose after another, and counts which are caught.
# usage: crash-seeds.sh DIR [KILLS [CUTS]]   DIR gets the test binaries
set -euo pipefail
bin=$(realpath "$1")
kills=${2:-100} cuts=${3:-30}
cd "$(dirname "$0")/internal/engine"
seeds="nofilesync nodirsync nosyncjournal actfirst trustlink laterecord"

# run SEED: cuts the power and then kills until the first bad one. It fails if one is caught.
run() {
  go test -c -tags "seed_$1" -o "$bin/crash-seed.test" .
  export GARRISON_FIRST_BAD=1 GARRISON_KILLS=$kills GARRISON_CUTS=$cuts
  for test in LosesPowerAtAnyInstant KilledAtAnyInstant; do
    out=$(timeout 900 "$bin/crash-seed.test" -test.timeout 890s -test.run "$test" 2>&1) || return 1
  done
}

caught=0 seeded=0
printf '%-16s %-8s %s\n' seed caught "first seen as"
for seed in $seeds; do
  seeded=$((seeded + 1))
  if run "$seed"; then
    printf '%-16s %-8s\n' "$seed" NO
  elif grep -q 'interruptions left something bad' <<<"$out"; then
    caught=$((caught + 1))
    printf '%-16s %-8s %s\n' "$seed" yes "$(grep -m1 -o 'crash_test.go:[0-9]*: .*\[.*' <<<"$out" | cut -d' ' -f2- | cut -c1-150)"
  else
    echo "$out" | tail -5
    printf '%-16s %-8s\n' "$seed" broken
  fi
done
rm -f "$bin/crash-seed.test"
echo "caught/seeded: $caught/$seeded"
[ "$caught" = "$seeded" ]
