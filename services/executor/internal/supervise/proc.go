package supervise

import (
	"bytes"
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/garrison-fleet/garrison/services/executor/internal/kin"
)

// bootID tells two boots apart, so that process ids of an earlier one mean nothing.
var bootID = sync.OnceValue(func() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // empty where there is none
	return strings.TrimSpace(string(data))
})

// findToken looks for the process that was started with a token. Whoever knows the token is
// that process or comes from it: the record is the executor's alone, and the kernel shows an
// environment to its own user only. Such a child may lead a session of its own and carry the
// token too, so of several it is the one that was started first.
func findToken(token string) (pid int, err error) {
	all, err := kin.Of(token)
	if err != nil {
		return 0, err
	}
	var carriers []carrier
	for _, pid := range all {
		if start, ok := kin.StartTime(pid); ok && leader(pid) {
			carriers = append(carriers, carrier{pid, start})
		}
	}
	if len(carriers) == 0 {
		return 0, errNoProcess
	}
	return first(carriers), nil
}

// carrier is a process that carries a token.
type carrier struct {
	pid   int
	start uint64
}

// first gives the process that was started first; of two in one tick, the one with the lower id.
func first(all []carrier) (pid int) {
	return slices.MinFunc(all, func(a, b carrier) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.pid, b.pid))
	}).pid
}

var errNoProcess = errors.New("no such process")

// leader says whether a process leads its session, as every process that we start does.
func leader(pid int) bool { return session(pid) == pid }

// session gives the id of a process's session, which is its leader's; 0 when it is not there.
func session(pid int) int { return statField(pid, 3) }

// group gives the id of a process's group, in the same way.
func group(pid int) int { return statField(pid, 2) }

// statField gives a number of /proc/PID/stat, counted from the state on (proc(5)).
func statField(pid, n int) int {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) <= n {
		return 0
	}
	id, _ := strconv.Atoi(string(fields[n]))
	return id
}

// members gives the processes of the session that the process of a slot's record leads,
// that one first; none when it does not run.
func members(path string) []int {
	r, ok, err := readRecord(path)
	if !ok || err != nil {
		return nil
	}
	r, runs := r.find()
	if !runs {
		return nil
	}
	out := []int{r.Pid}
	entries, _ := os.ReadDir("/proc") // without it, its leader has to do
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != r.Pid && session(pid) == r.Pid {
			out = append(out, pid)
		}
	}
	return out
}
