#!/bin/bash
# Compares what a person sees at 80×24, while a rollout to 300 simulated servers is under way, with the screens that
# e2e/screens keeps, and fails where the words of one differ. Numbers, ids, times and names of servers are not compared,
# nor how many rows of one kind there are; five screens depend on the moment and are only kept. UPDATE=1 writes the
# screens, to be looked at; `make screens` builds the programs first.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bin=${GARRISON_BIN:-$here/../bin}
work=$(mktemp -d)
socket=screens-$$
export PATH=$bin:$PATH GARRISON_CONTEXT=$work/data/operator.json GARRISON_BEAT_INTERVAL=5s

finish() {
  tmux -L "$socket" kill-server 2>/dev/null || true
  for process in $(jobs -p); do kill "$process" 2>/dev/null || true; done
  wait || true
  rm -rf "$work"
}
trap finish EXIT

# until_ok runs a command each second until it succeeds, for two minutes at most.
until_ok() {
  for _ in $(seq 120); do "$@" >/dev/null 2>&1 && return; sleep 1; done
  echo "$* did not succeed" >&2 && return 1
}

# keep NAME writes the terminal into a file.
keep() {
  tmux -L "$socket" capture-pane -p -t 0 | sed -E \
    -e 's/\b[0-9a-f]{8}-[0-9a-f]{4}(-[0-9a-f]{4}){2}-[0-9a-f]{12}\b/01900000-0000-7000-8000-000000000000/g' \
    -e 's/\b[0-9a-f]{8}-[0-9a-f]{4}\b/01900000-0000/g' -e 's/\b[0-9a-f]{8}\b/01900000/g' \
    -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z/2026-01-31T12:00:00Z/g' >"$screens/$1.txt"
}

# kinds prints the kinds of lines of a screen: without what differs between two runs.
kinds() {
  sed -E -e 's/web-[0-9…]+/web/g' -e 's/[0-9]+(\.[0-9]+)*(µs|ms|s|m|h|d|%)?/N/g' -e 's/(N ?)+/N/g' \
    -e 's/[^[:alnum:]]+/ /g' -e 's/ +$//' "$1" | sort -u
}

moving=" check explain rollout-live rollout-show status " # how far the rollout is decides their words

# compare fails when a screen has lines of other kinds than the kept one.
compare() {
  local file differs=0
  for file in "$here"/screens/*.txt; do
    case $moving in *" $(basename "$file" .txt) "*) continue ;; esac
    diff <(kinds "$file") <(kinds "$screens/$(basename "$file")") >"$work/differs" && continue
    echo "$(basename "$file") differs (UPDATE=1 make screens writes it):" >&2
    cat "$work/differs" >&2
    differs=1
  done
  return $differs
}

# terminal starts a shell in a terminal of 80×24.
terminal() {
  tmux -L "$socket" new-session -d -x 80 -y 24 "env PS1='\$ ' TERM=xterm NO_COLOR=1 bash --norc --noprofile -i"
}

# shown NAME COMMAND keeps what a command shows once it has ended.
shown() {
  tmux -L "$socket" send-keys -t 0 "clear; $2; tmux -L $socket wait-for -S shown" Enter
  timeout 60 tmux -L "$socket" wait-for shown
  keep "$1"
}

# prompted TEXT reports whether the terminal shows a text.
prompted() { tmux -L "$socket" capture-pane -p -t 0 | grep -q "$1"; }

screens=$work/screens
[ -z "${UPDATE:-}" ] || screens=$here/screens
mkdir -p "$screens"
cd "$work"
garrisond --data data --listen 127.0.0.1:0 >garrisond.log 2>&1 &
until_ok garrison status
garrison token create big --uses 300 --label rack=big --token-file token
garrison-sim --dir sim --servers 300 --name web --token-file token --context "$GARRISON_CONTEXT" \
  --beat-interval 5s --duration 2s --bad 2.0.0=1 >sim.log 2>&1 &
online() { [ "$(garrison server list --count --jq '.[0].count')" = 300 ]; }
until_ok online
mkdir agent && cp "$bin/beacon" agent/
printf 'agent: beacon\nversion: "1.0.0"\nkind: daemon\nrun: {command: beacon}\n' >agent/garrison.yaml
garrison agent create beacon
for version in 1.0.0 2.0.0 3.0.0; do
  garrison image build agent --version "$version" --out image
  garrison image import image --activate
done
garrison install beacon@1.0.0 --on all --at-once --yes -m CHG-1
garrison up beacon@2.0.0 --on web-00001,web-00002 --at-once --yes -m CHG-2 || true # it fails there
terminal
shown help garrison
tmux -L "$socket" send-keys -t 0 "clear; garrison up beacon@3.0.0 --on all -m CHG-3" Enter
until_ok prompted 'y/N'
keep up
tmux -L "$socket" send-keys -t 0 y Enter
until_ok prompted 'wave 2/2'
keep rollout-live
tmux -L "$socket" send-keys -t 0 C-c
until_ok prompted 'garrison watch'
rollout=$(garrison rollout list -o name | sed -n 1p)
task=$(garrison task list --state undone -o name | sed -n 1p)
shown status 'garrison status'
shown server-list 'garrison server list --limit 20'
shown instance-list 'garrison instance list --limit 20'
shown image-list 'garrison image list'
shown intent-list 'garrison intent list'
shown events 'garrison events --noun intent --limit 15'
shown explain 'garrison explain beacon'
shown explain-server 'garrison explain web-00001 beacon'
shown check 'garrison check'
shown rollout-list 'garrison rollout list'
shown rollout-show "garrison rollout show $rollout"
shown task-show "garrison task show $task"
shown logs 'garrison logs web-00001 beacon'
compare
