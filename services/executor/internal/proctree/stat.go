package proctree

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Stat is what the kernel says about a process (proc(5), stat).
type Stat struct {
	State                  byte // such as R, S and T
	Parent, Group, Session int
	Start                  uint64 // in clock ticks since the boot; with the boot and the id it identifies a process
}

// Read reads a process's stat. ok is false when the process is gone or a zombie.
func Read(pid int) (s Stat, ok bool) {
	s, ok = parse(pid)
	if s.State == 'Z' || s.State == 'X' {
		return Stat{}, false
	}
	return s, ok
}

// Zombies returns the children of a process that have ended and that it has not waited for.
func Zombies(parent int) (out []Child) {
	all, _ := All() // without the list there are none that are known
	for _, pid := range all {
		if s, ok := parse(pid); ok && s.State == 'Z' && s.Parent == parent {
			out = append(out, Child{pid, s.Start})
		}
	}
	return out
}

// parse reads the stat of a process or a zombie.
func parse(pid int) (s Stat, ok bool) {
	data, err := os.ReadFile(Path(pid, "stat"))
	if err != nil {
		return s, false
	}
	// The name stands in parentheses and may hold anything: the fields begin after the last one, with the state.
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:])
	if len(fields) < 20 {
		return s, false
	}
	s.State = fields[0][0]
	s.Parent, _ = strconv.Atoi(string(fields[1]))
	s.Group, _ = strconv.Atoi(string(fields[2]))
	s.Session, _ = strconv.Atoi(string(fields[3]))
	s.Start, err = strconv.ParseUint(string(fields[19]), 10, 64)
	return s, err == nil
}

// Status returns what the kernel says about a process in words (proc(5), status), by name.
func Status(pid int) (map[string]string, error) {
	data, err := os.ReadFile(Path(pid, "status"))
	out := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		out[name] = strings.TrimSpace(value)
	}
	return out, err
}

// Stopped reports whether a signal stopped a process. One that a debugger holds is not stopped.
func Stopped(pid int) bool {
	s, _ := Read(pid)
	return s.State == 'T'
}

// runnable reports whether a process runs, waits for a processor or waits for a disk.
func runnable(pid int) bool {
	s, _ := Read(pid)
	return s.State == 'R' || s.State == 'D'
}

// StartTime returns when a process started, in clock ticks since the boot. ok is false when it is gone or a zombie.
func StartTime(pid int) (ticks uint64, ok bool) {
	s, ok := Read(pid)
	return s.Start, ok
}

// All returns the ids of all processes.
func All() (pids []int, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// Path returns the path of what the kernel shows of a process under a name, such as stat.
func Path(pid int, name string) string { return filepath.Join("/proc", strconv.Itoa(pid), name) }

// BootID identifies this boot, or is empty where the kernel does not show it: a process id and a start time of another
// boot mean nothing.
var BootID = sync.OnceValue(func() string {
	data, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(data))
})

// ticksPerSecond is the unit of start times, the same on all supported platforms (USER_HZ).
const ticksPerSecond = 100

// now returns the time since the boot in the unit of start times.
func now() (ticks uint64) {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return uint64(t.Nano() / (time.Second.Nanoseconds() / ticksPerSecond))
}
