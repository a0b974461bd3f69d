#!/bin/bash
# Interrupts an executor in all its changes, its own replacement too, and prints the outcomes; the last table is by kind
# of change.
# usage: crash.sh DIR KILLS CUTS [WITHIN]   DIR gets the test binaries; WITHIN, as in 20m, bounds each test
set -euo pipefail
bin=$(realpath "$1")
export GARRISON_KILLS=$2 GARRISON_CUTS=$3 GARRISON_WITHIN=${4-}
cd "$(dirname "$0")"
go test -c -o "$bin/crash-self.test" .
cd internal/engine
go test -c -o "$bin/crash.test" .
GARRISON_CRASH_TOTALS=$(mktemp)
export GARRISON_CRASH_TOTALS
trap 'rm -f "$GARRISON_CRASH_TOTALS"' EXIT
ended=0
"$bin/crash.test" -test.timeout 4h -test.run 'AtAnyInstant|AtEachStart' || ended=1
cd ../..
"$bin/crash-self.test" -test.timeout 4h -test.run AtAnyInstant || ended=1

awk -F '\t' '
  function cells(how, kind,   n, out) {
    if (!((how, kind, 3) in sum)) return "      -       -       -     -"
    for (n = 3; n <= 6; n++) out = out sprintf(n == 6 ? "%5d" : "%7d ", sum[how, kind, n])
    return out
  }
  {
    for (n = 3; n <= 6; n++) { sum[$1, $2, n] += $n; sum[$1, "all", n] += $n }
  }
  END {
    named["self"] = "self-replacement"
    head = "  kills     old     new   bad"
    printf "%-17s   %-28s   %-28s   %s\n", "", "SIGKILL", "power cut", "down at each start"
    printf "%-17s   %s   %s   %s\n", "change", head, head, head
    count = split("install upgrade configure repair undo remove self all", kinds, " ")
    for (k = 1; k <= count; k++) {
      name = kinds[k] in named ? named[kinds[k]] : kinds[k]
      printf "%-17s   %s   %s   %s\n", name, cells("SIGKILL", kinds[k]), cells("power cut", kinds[k]),
        cells("each start", kinds[k])
    }
  }' "$GARRISON_CRASH_TOTALS"
exit $ended
