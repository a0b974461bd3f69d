package packages

import (
	"errors"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// forkingName is the program that stays in the foreground for an agent that forks.
const forkingName = "garrison-forking"

// forkingText runs a program that forks, and lasts as long as the process whose id is in its PID file. What it is sent,
// it sends on. As a probe, it reports whether that process runs.
const forkingText = `#!/bin/sh
# run PIDFILE PROGRAM ARGUMENTS | check PIDFILE
mode=$1 file=$2
shift 2
pid() { read -r pid < "$file" && case $pid in '' | *[!0-9]*) false ;; esac; } 2> /dev/null
if [ "$mode" = check ]; then pid && exec kill -0 "$pid"; exit 1; fi
rm -f "$file"
"$@" || exit
left=600
until pid; do
  left=$((left - 1))
  if [ $left = 0 ]; then echo "$1 wrote no process id to $file within a minute" >&2; exit 1; fi
  sleep 0.1
done
stop='' nap=1
trap 'stop=1 nap=0.1; kill -TERM "$pid"' TERM INT
trap 'kill -HUP "$pid"' HUP
while kill -0 "$pid" 2> /dev/null; do
  sleep $nap &
  wait $!
done
[ -n "$stop" ]
`

// forking has the agent started by a program that stays in the foreground: an executor keeps the process that it
// starts, and ends what that leaves behind.
func (m *mapping) forking() error {
	file := m.unit.specifiers().Replace(m.unit.last("Service", "PIDFile"))
	if file == "" {
		return m.noCommand("%s forks, and names no PIDFile by which it is found; --run with the option that keeps it "+
			"in the foreground", m.unit.last("Service", "ExecStart"))
	}
	if !strings.HasPrefix(file, "/") {
		file = "/run/" + file
	}
	args := []string{"run", file, "${image}/" + m.run["command"].(string)}
	m.run["command"], m.run["args"] = forkingName, append(args, m.run["args"].([]string)...)
	m.run["ready"] = map[string]any{"exec": map[string]any{"command": forkingName, "args": []string{"check", file}}}
	m.note(code.NotMapped, "Type=forking", "the image starts it with its script "+forkingName+", which lasts as long "+
		"as the process in "+file+"; better is --run with the option that keeps it in the foreground")
	f, err := m.root.Create(forkingName)
	if err != nil {
		return err
	}
	_, err = f.WriteString(forkingText)
	return errors.Join(err, f.Chmod(0o755), f.Close())
}
