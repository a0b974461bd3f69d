#!/usr/bin/env bash
# raced.sh yes|no: prints the packages with tests in which goroutines meet (yes) or cannot meet (no). In the others no
# file, tests included, starts a goroutine, synchronises, or uses the bus, so that the race detector has nothing to
# observe; it makes them several times as slow to link and run.
set -euo pipefail
cd "$(dirname "$0")/.."
concurrent='^[[:space:]]*go (func|[[:alpha:]_.]+\()|\.Go\(|\.Parallel\(\)|<-'
concurrent+='|"(sync|sync/atomic|testing/synctest|net/http'
concurrent+='|net/http/httptest|.*/pkg/(bus|bustest|client|fold|facts|rungroup))"'
tested=$(git ls-files --cached --others --exclude-standard -- '*_test.go' |
  grep -v /testdata/ | xargs -n1 dirname | sort -u)
met=$(git grep --untracked -lE "$concurrent" -- '*.go' | xargs -n1 dirname | sort -u)
case ${1:-} in
  yes) comm -12 <(echo "$tested") <(echo "$met") ;;
  no) comm -23 <(echo "$tested") <(echo "$met") ;;
  *) echo "usage: $0 yes|no" >&2; exit 2 ;;
esac | sed 's:^:./:'
