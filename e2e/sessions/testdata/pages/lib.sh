# What stands for the machine in the sessions of pages: W is its root directory. The programs are the real ones; only
# what needs root or systemd is replaced: systemctl starts the ExecStart of the unit that the page installed, with its
# environment file, and waits until the program is ready, as the unit does with Type=notify. The executor runs agents
# itself: as root on a machine with systemd it would leave services there.

mkdir -p "$W/usr/local/bin" "$W/etc/systemd/system" "$W/usr/lib/sysusers.d" "$W/var/lib" "$W/var/backups" "$W/run" \
  "$W/root/work"
chmod 0755 "$W"
cd "$W/root/work"

systemd-sysusers() { :; }
chown() { :; }
runuser() { shift 3; "$@"; }                 # runuser -u USER -- COMMAND
install() {                                  # without a user and a group
  local args=()
  while [ $# -gt 0 ]; do
    case $1 in -o | -g) shift 2 ;; *) args+=("$1") && shift ;; esac
  done
  command install "${args[@]}"
}

# Until COMMAND succeeds, for a minute at most. A test waits here for a program that it started.
until_ok() {
  local end=$((SECONDS + 60))
  until "$@" >"$W/waiting" 2>&1; do
    if [ $SECONDS -ge $end ]; then
      echo "not within a minute: $*" >&2
      cat "$W/waiting" "$W"/*.log >&2
      return 1
    fi
    command sleep 0.1
  done
}

pids=$W/pids && mkdir -p "$pids"

unit_start() { # NAME of the unit without .service
  local unit=$W/etc/systemd/system/$1.service run env=$W/etc/garrison/$1.env
  [ -f "$unit" ]
  run=$(sed -n 's/^ExecStart=//p' "$unit" |
    sed "s:%S:$W/var/lib:g; s:/usr/local/bin:$W/usr/local/bin:g; s: /var/: $W/var/:g
      s:--supervisor auto:--supervisor direct:")
  (
    [ ! -f "$env" ] || { set -a && . "$env"; }
    export GARRISON_BEAT_INTERVAL=1s
    exec $run >>"$W/$1.log" 2>&1
  ) &
  echo $! >"$pids/$1"
  case $1 in
  garrisond) until_ok command garrisond health --data "$W/var/lib/garrisond" ;;
  garrison-executor) until_ok executor_ready ;;
  esac
}

executor_ready() { command executor status --root "$W/var/lib/garrison" | grep -q 'connected'; }

unit_stop() {
  [ -f "$pids/$1" ] || return 0
  kill "$(cat "$pids/$1")"
  wait "$(cat "$pids/$1")" || true
  rm "$pids/$1"
}

systemctl() {
  local verb=$1 unit=
  for unit; do :; done
  unit=${unit%.service}
  case $verb in
  daemon-reload) ;;
  start | enable) unit_start "$unit" ;;
  stop | disable) unit_stop "$unit" ;;
  restart) unit_stop "$unit" && unit_start "$unit" ;;
  status | is-active) [ -f "$pids/$unit" ] && kill -0 "$(cat "$pids/$unit")" ;;
  *) echo "systemctl $verb is not known here" >&2 && return 1 ;;
  esac
}

finish() {
  local file
  for file in "$pids"/*; do
    [ -f "$file" ] && unit_stop "$(basename "$file")"
  done
}
trap finish EXIT

# beacon VERSION builds, imports and activates a version of the sample agent, which listens at the label port.
beacon() {
  [ -d agent ] || {
    mkdir agent && cp "$BIN/beacon" agent/
    cat >agent/garrison.yaml <<'YAML'
agent: beacon
version: 0.0.0
kind: daemon
run:
  command: beacon
  args: ["-listen", "127.0.0.1:${label.port}", "-version", "${version}"]
  ready: {http: "http://127.0.0.1:${label.port}/", soak: 200ms}
  stop_timeout: 2s
YAML
    garrison agent create beacon
  }
  garrison image build agent --version "$1" --out "beacon-$1.gimg"
  garrison image import "beacon-$1.gimg" --activate
}

online() { garrison server list --columns name,state | grep -q "^$1 .*online"; }
ahead() { garrison server list --columns name,state | grep -q "^$1 .*ahead"; }
