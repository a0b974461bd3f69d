package kin

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is the unit of start times, the same on all machines that we run on (USER_HZ).
const ticksPerSecond = 100

// now gives the time since the boot, as start times are.
func now() (ticks uint64) {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return 0
	}
	return uint64(t.Nano() / (time.Second.Nanoseconds() / ticksPerSecond))
}

// StartTime gives when a process started, in clock ticks since the boot (proc(5), field
// 22 of stat). ok is false when it is not there or only waits to be buried.
func StartTime(pid int) (ticks uint64, ok bool) {
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

// readWithin is how long the kernel may take to give an environment.
const readWithin = 500 * time.Millisecond

// readers are the readings of environments that are under way, one for a process.
var readers sync.Map // of pid to *reader

type reader struct {
	began time.Time
	data  []byte        // read it after done
	done  chan struct{} // closed when the kernel has answered
}

// answers waits for the kernel, as long as it may take since the reading began.
func (r *reader) answers() bool {
	timer := time.NewTimer(time.Until(r.began.Add(readWithin)))
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}

// environ gives the environment that a process has now, entries and their zeros; nil when it
// cannot be read. The kernel waits for a process that is changing its memory, and that one
// may wait for a disk for ever; then there is none, and nobody asks again until the kernel
// has answered.
func environ(pid int) []byte {
	for {
		r := &reader{began: time.Now(), done: make(chan struct{})}
		other, busy := readers.LoadOrStore(pid, r)
		if !busy {
			go r.read(pid)
			if r.answers() {
				return r.data
			}
			return nil
		}
		if !other.(*reader).answers() {
			return nil
		}
	}
}

func (r *reader) read(pid int) {
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ"))
	if err == nil { // otherwise it ended, or is another user's and so not ours
		r.data = data
	}
	readers.Delete(pid)
	close(r.done)
}

// torn says whether an environment may have been read while its process became another
// program: there is none, or it does not end with a zero. Kernel threads, and who is about
// to end, have no program either.
func torn(pid int, env []byte) bool {
	if env == nil || len(env) > 0 && env[len(env)-1] == 0 {
		return false
	}
	_, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	return err == nil
}
