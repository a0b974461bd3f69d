package rig

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// Usage is what a process uses.
type Usage struct {
	CPU             time.Duration // so far
	ResidentKB      float64
	PeakKB          float64 // the most that was resident
	Threads         int
	FileDescriptors int
}

// clockTick is the unit of the times in /proc/PID/stat on every Linux that Go supports.
const clockTick = 10 * time.Millisecond

// Uses returns what a process uses, by /proc.
func Uses(pid int) (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return u, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // behind the name of the program
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, fmt.Errorf("process %d has the status %q", pid, stat)
	}
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return u, err
	}
	u.CPU = time.Duration(user+system) * clockTick
	status, err := os.ReadFile(dir + "/status")
	for line := range strings.Lines(string(status)) { // each scan takes its own line only
		_, _ = fmt.Sscanf(line, "VmRSS: %g", &u.ResidentKB)
		_, _ = fmt.Sscanf(line, "VmHWM: %g", &u.PeakKB)
		_, _ = fmt.Sscanf(line, "Threads: %d", &u.Threads)
	}
	files, _ := os.ReadDir(dir + "/fd")
	u.FileDescriptors = len(files)
	return u, err
}
