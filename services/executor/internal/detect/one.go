package detect

import (
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// Process is a process that a candidate's id names.
type Process struct {
	Pid       int
	Service   string // of systemd, when the candidate is that
	Start     uint64 // in clock ticks since the boot
	StartedAt time.Time
	Exe, Unit string
	Sockets   []string
}

// Find returns the process that a candidate's id names, if it still runs. mainOf returns the main process of a service;
// nil where there are none.
func Find(id string, mainOf func(service string) int) (p Process, ok bool) {
	pid, start, ok := parseProcessID(id)
	service, isUnit := strings.CutPrefix(id, "unit/")
	if isUnit && mainOf != nil && strings.HasSuffix(service, ".service") {
		pid = mainOf(service)
		start, ok = proctree.StartTime(pid)
		ok = ok && pid > 1
	}
	if !ok {
		return p, false
	}
	is := read(pid)
	if is == nil || is.start != start {
		return p, false
	}
	p = Process{
		Pid: pid, Start: start, StartedAt: startedAt(start), Exe: is.exe, Unit: is.unit,
		Sockets: newSockets().of(pid),
	}
	if isUnit {
		p.Service = service
	}
	return p, true
}

// parseProcessID reads what ProcessID writes.
func parseProcessID(id string) (pid int, start uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, "process/")
	first, second, cut := strings.Cut(rest, "-")
	pid, err := strconv.Atoi(first)
	start, err2 := strconv.ParseUint(second, 10, 64)
	return pid, start, ok && cut && err == nil && err2 == nil && pid > 1 && ProcessID(pid, start) == id
}
