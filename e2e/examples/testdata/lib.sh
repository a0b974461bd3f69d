# What the scripts share. HELP has a file for each command that has examples; W is the directory of the fleet.
#
#   examples 'COMMAND'…     runs the examples of commands, as their helps print them; a test reads these lines
#   means WORDS OTHERS      an example's words, such as an id or a path, stand for others
#   exits CODE 'EXAMPLE'    this example ends with another exit code than 0; the comment above it says why
#   first COMMAND 'EXAMPLE' a command that this example needs before it, such as a rollout to abort
#   shows PATTERN 'EXAMPLE' this example ends at Ctrl-C only, which comes once it has printed the pattern; until then
#                           the function poke is called again and again
#   skips WHY 'EXAMPLE'     this example cannot run here; a test of services/operator still parses it
#
# Standard input is a terminal that answers each question with y.

declare -A code pattern skipped before ran words
declare -a pids
failures=0

means() { words[$1]=$2; }
exits() { code[$2]=$1; }
shows() { pattern[$2]=$1; }
skips() { skipped[$2]=$1; }
first() { before[$2]=$1; }
poke() { :; }

# meant sets line to an example with what its words stand for.
meant() {
  local word
  line=$1
  for word in "${!words[@]}"; do line=${line//"$word"/"${words[$word]}"}; done
}

examples() { # COMMAND…
  local command example
  for command in "$@"; do
    [ -f "$HELP/$command" ] || fail "no help has examples of $command"
    while IFS= read -r -u 9 example; do
      ran[$example]=1
      [ -z "${skipped[$example]:-}" ] || continue
      [ -z "${before[$example]:-}" ] || do_ok "${before[$example]}"
      meant "$example"
      run_example "$example" "$line"
    done 9<"$HELP/$command"
  done
}

fail() { failures=$((failures + 1)) && echo "FAILED: $*"; }

run_example() { # EXAMPLE LINE
  local want=${code[$1]:-0} got=0
  if [ -n "${pattern[$1]:-}" ]; then
    leave "$2" "${pattern[$1]}" || got=$?
    [ "$got" != 130 ] || got=0
  else
    timeout -k 1 60 bash -c "$2" >"$W/said" 2>&1 || got=$?
  fi
  echo "$got $(($(date +%s%3N) - START)) $2"
  if [ "$got" != "$want" ]; then
    fail "exit code $got, want $want: $2"
    cat "$W/said"
  fi
}

# leave runs a command until it prints a pattern, and then interrupts it, as Ctrl-C does.
leave() { # LINE PATTERN
  local pid
  : >"$W/said"
  eval "exec $1" <&0 >"$W/said" 2>&1 &
  pid=$!
  until_ok shown "$2" "$pid"
  kill -INT $pid
  wait $pid
}

shown() { # PATTERN PROCESS
  poke
  grep -qE -e "$1" "$W/said" || ! kill -0 "$2"
}

until_ok() { # COMMAND…
  local end=$((SECONDS + 60))
  until "$@" >"$W/waited" 2>&1; do
    if [ $SECONDS -ge $end ]; then
      echo "not within a minute: $*"
      cat "$W/waited"
      return 1
    fi
    sleep 0.1
  done
}

# do_ok runs a step between examples. A script ends where one fails: what follows would fail because of it.
do_ok() {
  if ! "$@" >"$W/said" 2>&1; then
    echo "FAILED: step $*"
    cat "$W/said"
    finish 1
  fi
}

finish() { # [CODE]
  [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null
  wait
  local line
  for line in "${!code[@]}" "${!pattern[@]}" "${!skipped[@]}" "${!before[@]}"; do
    [ -n "${ran[$line]:-}" ] || [ -n "${1:-}" ] || fail "no help has the example: $line"
  done
  exit $((failures > 0 ? 1 : ${1:-0}))
}

# join invites a server and starts its executor. A server of that name must not exist.
join() { # SERVER FLAGS…
  local root=$W/servers/$1-$RANDOM
  do_ok garrison server enroll "$1" --label port=0 "${@:2}" --token-file "$root.token"
  start_server "$1" "$root" "$root.token"
}

start_server() { # SERVER ROOT TOKEN
  do_ok executor join --root "$2" --token-file "$3"
  executor run --root "$2" --beat-interval 1s --check-interval 1s --stop-agents --supervisor direct <&- >"$2.log" 2>&1 &
  pids+=($!)
  LAST=$2
  do_ok until_ok online "$1"
}

# kill_last ends the executor that was started last, as a machine ends that breaks.
kill_last() {
  kill -KILL "${pids[-1]}"
  unset 'pids[-1]'
}

online() { garrison server list --columns name,state | grep -q "^$1 .*online"; }

directory() { # AGENT: one from which images can be built
  mkdir -p "$1"
  printf '#!/bin/sh\necho "%s started"\nexec sleep 100000\n' "$1" >"$1/$1"
  chmod 755 "$1/$1"
  printf 'agent: %s\nversion: 1.0.0\nkind: daemon\nrun: {command: %s, ready: {soak: 100ms}}\n' "$1" "$1" \
    >"$1/garrison.yaml"
}

# agent creates an agent, and images of its versions, which are active.
agent() { # AGENT VERSION…
  directory "$1"
  do_ok garrison agent create "$1" --kind daemon
  images "$@"
}

images() { # AGENT VERSION…
  local version
  for version in "${@:2}"; do
    do_ok garrison image build "$1" --version "$version" --out "$W/$1-$version.gimg"
    do_ok garrison image import "$W/$1-$version.gimg" --activate
  done
}

mkdir -p "$W/servers" "$W/bin"
export PATH=$W/bin:$PATH
START=$(date +%s%3N)
