#!/usr/bin/env bash
# raced.sh gate|all: prints the packages whose tests run with the race detector: all in which goroutines meet, or those
# of them that link no nats-server and test no built programs. In the others no file, tests included, starts a
# goroutine, synchronises, or uses the bus, so that the race detector has nothing to observe. It makes a nats-server
# several times as slow, so make nightly runs what links one. A release starts processes and no goroutine.
set -euo pipefail
cd "$(dirname "$0")/.."
concurrent='^[[:space:]]*go (func|[[:alpha:]_.]+\()|\.Go\(|\.Parallel\(\)|<-'
concurrent+='|"(sync|sync/atomic|testing/synctest|net/http'
concurrent+='|net/http/httptest|.*/pkg/(bus|bustest|client|fold|facts|rungroup))"'
tested=$(git ls-files --cached --others --exclude-standard -- '*_test.go' |
  grep -vE '/testdata/|^e2e/|^deploy/release/' | xargs -n1 dirname | sort -u)
met=$(git grep --untracked -lE "$concurrent" -- '*.go' | xargs -n1 dirname | sort -u)
raced=$(comm -12 <(echo "$tested") <(echo "$met") | sed 's:^:./:')
names='{{if not .ForTest}}{{$p := .ImportPath}}{{range .Deps}}'
names+='{{if eq . "github.com/nats-io/nats-server/v2/server"}}{{println $p}}{{end}}{{end}}{{end}}'
case ${1:-} in
  all) echo "$raced" ;;
  gate)
    # shellcheck disable=SC2086 # a package is a word
    comm -23 <(go list $raced | sort -u) <(go list -test -f "$names" $raced | sed -n 's/\.test$//p' | sort -u) ;;
  *) echo "usage: $0 gate|all" >&2; exit 2 ;;
esac
