#!/usr/bin/env bash
# test.sh: runs all tests, lane after lane, and fails at the end when one failed. RUN=regexp runs some.
#
#   plain    every package but those below, three side by side
#   crowded  tests of real processes, which wait more than they compute: ten side by side, of two packages
#   scenario tests of whole systems whose programs were built with the race detector; a race ends its program. It runs
#            beside the lane plain. `make nightly` tests packages with the race detector
#
# A lane fails when the tests of a package take more than CPU=300s of processor time, with the processes that they wait
# for.
#
# LANES="plain crowded" runs some of them. bin/test-logs has the output of what failed.
set -uo pipefail
cd "$(dirname "$0")/.."
logs=$PWD/bin/test-logs
rm -rf "$logs" && mkdir -p "$logs"
. e2e/memory.sh
go build -o bin/testlane ./e2e/cmd/testlane || exit 1

# The longest begin first.
crowded="./e2e/servers ./e2e/faults ./services/executor/internal/engine ./e2e/attack ./e2e/changes ./services/executor
  ./e2e/self ./e2e/sessions ./e2e/examples
  ./e2e/console"
plain=$(git ls-files --cached --others --exclude-standard -- '*_test.go' | grep -v /testdata/ | xargs -n1 dirname |
  sort -u | sed 's:^:./:' | grep -vxF "$(tr -s ' \n' '\n' <<<"$crowded")")
failed=
lane() { # a name, and the arguments of go test
  local name=$1
  shift
  case " ${LANES:-plain crowded scenario} " in *" $name "*) ;; *) return ;; esac
  echo "--- $name"
  bin/testlane -logs "$logs" ${LIMIT:+-limit "$LIMIT"} -cpu "${CPU:-300s}" -- -vet=off -count=1 -timeout 20m \
    ${RUN:+-run "$RUN"} "$@" || failed="$failed $name"
}
race_scenario='HealthCheckIsRolledBack|EndsWhateverIsKilled'
scenario() {
  make --no-print-directory raced || return
  GARRISON_BIN=$PWD/bin/raced GORACE=halt_on_error=1 RUN=${RUN:-$race_scenario} lane scenario ./e2e/changes
  [ -z "$failed" ]
}
# shellcheck disable=SC2086 # a package is a word
{
  case " ${LANES:-scenario} " in *" scenario "*)
    (failed=; scenario) >"$logs/scenario" 2>&1 &
    beside=$! ;;
  esac
  lane plain -p "${TESTS:-3}" -parallel 8 $plain
  if [ -n "${beside:-}" ]; then
    wait "$beside" || failed="$failed scenario"
    cat "$logs/scenario"
  fi
  GARRISON_BIN=$PWD/bin lane crowded -p "${TESTS:-2}" -parallel $((10 / ${TESTS:-2})) $crowded
}
if [ -n "$failed" ]; then
  echo "failed lanes:$failed"
  cat "$logs"/failures
  exit 1
fi
