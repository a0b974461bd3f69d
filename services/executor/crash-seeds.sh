#!/bin/bash
# Builds the crash tests with one bug on purpose after another, and counts which are caught.
# usage: crash-seeds.sh DIR [KILLS [CUTS]]   DIR gets the test binaries
#
# Each seed is sought by the test that it is for, at every point in turn: a kill shows a wrong
# order, and a power cut what was not waited for. KILLS and CUTS are more than there are points.
set -euo pipefail
bin=$(realpath "$1")
kills=${2:-100} cuts=${3:-60}
cd "$(dirname "$0")"
seeds="nofilesync:internal/engine:LosesPowerAtAnyInstantLeaves
nodirsync:internal/engine:LosesPowerAtAnyInstantLeaves
nosyncjournal:internal/engine:LosesPowerAtAnyInstantLeaves
actfirst:internal/engine:KilledAtAnyInstantLeaves
ackfirst:internal/engine:KilledAtAnyInstantLeaves
trustlink:internal/engine:KilledAtAnyInstantLeaves
laterecord:internal/engine:KilledAtAnyInstantLeaves
trusttrial:.:ReplacesItselfKilledAtAnyInstant
nodirsync:.:ReplacesItselfLosesPowerAtAnyInstant"

# run SEED PACKAGE TEST: interrupts until the first bad one. It fails if one is caught.
run() {
  (cd "$2" && go test -c -tags "seed_$1" -o "$bin/crash-seed.test" .)
  out=$(cd "$2" && GARRISON_SEED="seed_$1" GARRISON_FIRST_BAD=1 GARRISON_KILLS=$kills GARRISON_CUTS=$cuts \
    timeout 900 "$bin/crash-seed.test" -test.timeout 890s -test.run "$3" 2>&1)
}

caught=0 seeded=0
printf '%-16s %-8s %-10s %s\n' seed caught within "first seen as"
for line in $seeds; do
  IFS=: read -r seed package test <<<"$line"
  seeded=$((seeded + 1)) began=$SECONDS
  if run "$seed" "$package" "$test"; then
    printf '%-16s %-8s\n' "$seed" NO
  elif grep -q 'interruptions left something bad' <<<"$out"; then
    caught=$((caught + 1))
    printf '%-16s %-8s %-10s %s\n' "$seed" yes "$((SECONDS - began)) s" "$(grep -m1 -o 'crash_test.go:[0-9]*: .*, killed a.*' <<<"$out" | cut -d' ' -f2- | cut -c1-150)"
  else
    echo "$out" | tail -5
    printf '%-16s %-8s\n' "$seed" broken
  fi
done
rm -f "$bin/crash-seed.test"
echo "caught/seeded: $caught/$seeded"
[ "$caught" = "$seeded" ]
