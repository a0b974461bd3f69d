#!/usr/bin/env bash
# raced.sh: prints the packages whose tests `make nightly` runs with the race detector: all in which goroutines meet. In
# the others no file, tests included, starts a goroutine, synchronises, or uses the bus, so that the race detector has
# nothing to observe. A release starts processes and no goroutine.
set -euo pipefail
cd "$(dirname "$0")/.."
concurrent='^[[:space:]]*go (func|[[:alpha:]_.]+\()|\.Go\(|\.Parallel\(\)|<-'
concurrent+='|"(sync|sync/atomic|testing/synctest|net/http'
concurrent+='|net/http/httptest|.*/pkg/(bus|bustest|client|fold|facts|rungroup))"'
tested=$(git ls-files --cached --others --exclude-standard -- '*_test.go' |
  grep -vE '/testdata/|^e2e/|^deploy/release/' | xargs -n1 dirname | sort -u)
met=$(git grep --untracked -lE "$concurrent" -- '*.go' | xargs -n1 dirname | sort -u)
comm -12 <(echo "$tested") <(echo "$met") | sed 's:^:./:'
