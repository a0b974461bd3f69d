package proctree

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"time"
)

// readWithin bounds how long the kernel may take to return an environment.
const readWithin = 500 * time.Millisecond

// reads holds the reads of environments that are under way, at most one for a process.
var reads sync.Map // of pid to *read

type read struct {
	began time.Time
	data  []byte        // valid after done
	done  chan struct{} // closed when the kernel has answered
}

// wait reports whether the kernel answers within readWithin of the read's begin.
func (r *read) wait() bool {
	timer := time.NewTimer(time.Until(r.began.Add(readWithin)))
	defer timer.Stop()
	select {
	case <-r.done:
		return true
	case <-timer.C:
		return false
	}
}

// environ returns the environment of a process at the time of the call, entries with their final zeros; nil when it
// cannot be read. The kernel blocks a reader while the process changes its memory, and the process may wait for a disk
// forever. Such a process has one blocked reader, and later calls return nil at once until the kernel has answered.
func environ(pid int) []byte {
	for {
		r := &read{began: time.Now(), done: make(chan struct{})}
		other, busy := reads.LoadOrStore(pid, r)
		if !busy {
			go r.do(pid)
			if r.wait() {
				return r.data
			}
			return nil
		}
		if !other.(*read).wait() { // its answer may be older than this call
			return nil
		}
	}
}

func (r *read) do(pid int) {
	if data, err := os.ReadFile(Path(pid, "environ")); err == nil { // else the process ended or is another user's
		r.data = data
	}
	reads.Delete(pid)
	close(r.done)
}

// Variable returns a variable with which a process was started, or "".
func Variable(pid int, name string) string {
	for v := range bytes.SplitSeq(environ(pid), []byte{0}) { // none when it ended, or is another user's
		if value, ok := strings.CutPrefix(string(v), name+"="); ok {
			return value
		}
	}
	return ""
}

// carries reports whether a process carries a token; sure is false while it becomes another program.
func carries(pid int, token string) (is, sure bool) {
	if started, ok := StartTime(pid); !ok || started < earliest(token) {
		return false, true
	}
	env := environ(pid)
	want := []byte(Mark(token))
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, want) {
			return true, true
		}
	}
	return false, !torn(pid, env)
}

// torn reports whether an environment may have been read during an exec: it is empty, or does not end with a zero.
// Kernel threads and exiting processes have no program either.
func torn(pid int, env []byte) bool {
	if env == nil || len(env) > 0 && env[len(env)-1] == 0 {
		return false
	}
	_, err := os.Readlink(Path(pid, "exe"))
	return err == nil
}
