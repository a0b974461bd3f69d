#!/usr/bin/env bash
# run.sh BIN: runs garrisond and one enrolled executor in a temporary directory until Ctrl-C,
# then stops both and deletes the directory. `make run` calls it.
set -euo pipefail
bin=$1
dir=$(mktemp -d "${TMPDIR:-/tmp}/garrison-run.XXXXXX")
pids=()

stop() {
  trap - EXIT
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  for pid in "${pids[@]}"; do wait "$pid" 2>/dev/null || true; done
  rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

"$bin/garrisond" --data "$dir/control" --listen 127.0.0.1:0 --http 127.0.0.1:0 \
  >"$dir/garrisond.out" 2>"$dir/garrisond.log" &
pids+=($!)
export GARRISON_CONTEXT=$dir/control/operator.json
for ((i = 0; i < 300; i++)); do
  grep -q . "$dir/garrisond.out" && break
  kill -0 "${pids[0]}" 2>/dev/null || { cat "$dir/garrisond.log" >&2; exit 1; }
  sleep 0.1
done

"$bin/garrison" server enroll demo-1 --label port=18080 --token-file "$dir/token"
"$bin/executor" join --root "$dir/server" --token-file "$dir/token"
"$bin/executor" run --root "$dir/server" --stop-agents >"$dir/executor.log" 2>&1 &
pids+=($!)

http=$(sed -n 's/^HTTP is served at //p' "$dir/garrisond.out")
cat <<TEXT

Garrison is running. In another terminal:

    export PATH=$bin:\$PATH GARRISON_CONTEXT=$GARRISON_CONTEXT
    garrison server list
    garrison events -f
    garrison console
    curl -N -H "Authorization: Bearer \$(garrison context token)" $http/events

Logs: $dir/garrisond.log and $dir/executor.log. Ctrl-C stops everything and deletes $dir.
TEXT
wait -n "${pids[@]}"
echo "a process ended by itself; its log:" >&2
tail -n 20 "$dir/garrisond.log" "$dir/executor.log" >&2
exit 1
