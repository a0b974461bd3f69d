package detect

import (
	"strconv"
	"strings"
	"time"
)

// Process is a process that a candidate's id names.
type Process struct {
	Pid       int
	Start     uint64 // in clock ticks since the boot
	StartedAt time.Time
	Exe, Unit string
	Sockets   []string
}

// Find returns the process that a candidate's id names, if it still runs.
func Find(id string) (p Process, ok bool) {
	pid, start, ok := parseProcessID(id)
	if !ok {
		return p, false
	}
	is := read(pid)
	if is == nil || is.start != start {
		return p, false
	}
	return Process{
		Pid: pid, Start: start, StartedAt: startedAt(start), Exe: is.exe, Unit: is.unit,
		Sockets: newSockets().of(pid),
	}, true
}

// parseProcessID reads what ProcessID writes.
func parseProcessID(id string) (pid int, start uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, "process/")
	first, second, cut := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(first)
	start, err2 := strconv.ParseUint(second, 10, 64)
	return pid, start, ok && cut && err == nil && err2 == nil && pid > 1 && ProcessID(pid, start) == id
}
