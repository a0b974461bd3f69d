#!/usr/bin/env bash
# flaky.sh N PACKAGE...: runs each test of each package N times beside four processes that take all they can get, and
# prints a line for each package and how often which test failed. `make flaky` calls it.
set -uo pipefail
cd "$(dirname "$0")/.."
n=$1
shift
logs=$PWD/bin/flaky
rm -rf "$logs" && mkdir -p "$logs"
. e2e/memory.sh
go build -o bin/testlane ./e2e/cmd/testlane || exit 1
load=()
for _ in 1 2 3 4; do
  (while :; do :; done) &
  load+=($!)
done
trap 'kill "${load[@]}"; forget_memory' EXIT
failed=0
for package in $(go list "$@"); do
  logged=$logs/$(tr / - <<<"${package#*/*/*/}")
  GARRISON_BIN=$PWD/bin bin/testlane -logs "$logged" -- -vet=off "-count=$n" -shuffle=on -timeout 5h -parallel 8 \
    ${RUN:+-run "$RUN"} "$package" >"$logged.out" 2>&1 || failed=$((failed + 1))
  grep -aE '^(ok|FAIL|SLOW) +[^ ]+/' "$logged.out"
done
cat "$logs"/*/failures 2>/dev/null | grep '^FAIL' | sort | uniq -c | sort -rn
echo "tests of $failed packages failed; their output is in $logs"
[ "$failed" -eq 0 ]
