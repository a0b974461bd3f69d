#!/bin/bash
# Builds the crash tests with one seeded bug after another, and counts how many of them the tests catch.
# usage: crash-seeds.sh DIR [KILLS [CUTS]]   DIR gets the test binaries
#
# Each seed runs against its own test (simulation/crash/seeds), at every point in turn: a kill shows a wrong
# order, and a power cut a missing sync. KILLS and CUTS are more than there are points. GARRISON_SEEDS is a regular
# expression that selects seeds.
set -euo pipefail
bin=$(realpath "$1")
kills=${2:-100} cuts=${3:-60}
cd "$(dirname "$0")"
overlays=$(mktemp -d)
trap 'rm -rf "$overlays" "$bin/crash-seed.test"' EXIT
seeds=$(go run ./simulation/crash/seeds "$overlays" | grep -E "${GARRISON_SEEDS:-.}")

# run SEED PACKAGE TEST: interrupts until the first bad outcome. It fails when the test catches the bug.
# GOFLAGS reaches the programs that the test builds.
run() {
  export GOFLAGS="${GOFLAGS-} -overlay=$overlays/$1.json"
  cd "$2" && go test -c -o "$bin/crash-seed.test" . || return # bash ignores -e here
  GARRISON_FIRST_BAD=1 GARRISON_KILLS=$kills GARRISON_CUTS=$cuts \
    timeout 900 "$bin/crash-seed.test" -test.timeout 890s -test.run "$3" 2>&1
}

caught=0 seeded=0
printf '%-16s %-8s %-10s %s\n' seed caught within "first seen as"
for line in $seeds; do
  IFS=: read -r seed package test <<<"$line"
  seeded=$((seeded + 1)) began=$SECONDS
  if out=$(run "$seed" "$package" "$test"); then
    printf '%-16s %-8s\n' "$seed" NO
  elif grep -q 'interruptions left something bad' <<<"$out"; then
    caught=$((caught + 1))
    seen=$(grep -m1 -o 'crash_test.go:[0-9]*: .*, killed a.*' <<<"$out" | cut -d' ' -f2- | cut -c1-150)
    printf '%-16s %-8s %-10s %s\n' "$seed" yes "$((SECONDS - began)) s" "$seen"
  else
    echo "$out" | tail -5
    printf '%-16s %-8s\n' "$seed" broken
  fi
done
echo "caught/seeded: $caught/$seeded"
[ "$caught" = "$seeded" ]
