package supervise

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// tokenVariable is how a process carries the token of its start.
const tokenVariable = "GARRISON_START"

// bootID tells two boots apart, so that process ids of an earlier one mean nothing.
var bootID = sync.OnceValue(func() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // empty where there is none
	return strings.TrimSpace(string(data))
})

// startTime gives when a process started, in clock ticks since the boot (proc(5), field
// 22 of stat). ok is false when it is not there or only waits to be buried.
func startTime(pid int) (ticks uint64, ok bool) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, false
	}
	// The name stands in parentheses and may hold anything, so look behind the last one.
	_, rest, found := bytes.Cut(data[bytes.LastIndexByte(data, ')')+1:], []byte(" "))
	fields := bytes.Fields(rest)
	if !found || len(fields) < 20 || fields[0][0] == 'Z' || fields[0][0] == 'X' {
		return 0, false
	}
	ticks, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return ticks, err == nil
}

// findToken looks for the session leader that carries a token.
func findToken(token string) (pid int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, fmt.Errorf("look for a process: %w", err)
	}
	want := []byte(tokenVariable + "=" + token)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !leader(pid) {
			continue
		}
		environ, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil {
			continue // it ended, or is another user's and so not ours
		}
		for v := range bytes.SplitSeq(environ, []byte{0}) {
			if bytes.Equal(v, want) {
				return pid, nil
			}
		}
	}
	return 0, errNoProcess
}

var errNoProcess = errors.New("no such process")

// leader says whether a process leads its session, as every process that we start does.
func leader(pid int) bool { return session(pid) == pid }

// session gives the id of a process's session, which is its leader's; 0 when it is not there.
func session(pid int) int {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 4 {
		return 0
	}
	id, _ := strconv.Atoi(string(fields[3]))
	return id
}

// Members gives the processes of the session that the process of a slot's record leads,
// that one first; none when it does not run.
func Members(path string) []int {
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
