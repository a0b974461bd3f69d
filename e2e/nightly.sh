#!/usr/bin/env bash
# nightly.sh: what takes too long for each change. Each part runs whatever failed before it; a table ends it.
set -uo pipefail
cd "$(dirname "$0")/.."
mkdir -p bin
table=
failed=
part() { # a name and a command
  local name=$1 began=$SECONDS came_out=passed
  shift
  echo "=== $name: $*"
  "$@" || { came_out=FAILED && failed=1; }
  table+=$(printf '%-12s %-7s %6d s' "$name" "$came_out" $((SECONDS - began)))$'\n'
}
raced() {
  go build -o bin/testlane ./e2e/cmd/testlane &&
    CGO_ENABLED=1 bin/testlane -logs bin/test-logs -- -race -vet=off -count=1 -timeout 2h -p 1 -parallel 4 \
      $(e2e/raced.sh)
}
# A package's tests take a minute at most when nothing runs beside them.
times() { LIMIT=60s LANES="plain crowded" TESTS=1 e2e/test.sh; }
part race raced
part times times
part chaos make --no-print-directory chaos ROUNDS=20
part crash make --no-print-directory crash WITHIN=20m
part systemd make --no-print-directory systemd-test
part release make --no-print-directory release-test
part attack make --no-print-directory attack
part cluster make --no-print-directory cluster-test
part bench make --no-print-directory bench
part fuzz make --no-print-directory fuzz
part vuln make --no-print-directory vuln
printf '%s' "$table"
[ -z "$failed" ]
