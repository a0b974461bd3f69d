package supervise

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/format"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// Format numbers the records. Records from before there were numbers are read.
var Format = format.Spec{Kind: "process record", Now: 1, Floor: 1}

// record is the content of a slot's file: the identity of its process.
type record struct {
	format.Stamp
	Token     string    `json:"token"` // in the process's environment; written before the start
	Boot      string    `json:"boot"`
	Pid       int       `json:"pid"` // 0: about to be started
	Start     uint64    `json:"start"`
	StartedAt time.Time `json:"started_at"`
	Ready     bool      `json:"ready,omitempty"` // the health check passed after READY=1
	Left      []string  `json:"left,omitempty"`  // the tokens of earlier starts whose processes did not all end
}

// maxLeft bounds record.Left.
const maxLeft = 8

// RecordName returns the name of the record of an agent's version.
func RecordName(image string) string { return recordPrefix + image + recordSuffix }

const recordPrefix, recordSuffix = "process-", ".json"

// records returns the paths of the records in an agent's run directory.
func records(dir string) (paths []string) {
	entries, _ := os.ReadDir(dir) // without the directory nothing of the agent was ever started
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), recordPrefix) && strings.HasSuffix(e.Name(), recordSuffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths
}

func readRecord(path string) (record, bool, error) {
	var r record
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("read process record: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, false, fmt.Errorf("read process record %s: %w", path, err)
	}
	return r, true, Format.Check(path, r.Stamp)
}

// recordBytes is the size of every record: one block, so that a record can be overwritten in place on a full disk.
const recordBytes = 4 << 10

// write replaces the record, whole or not at all. On a full disk it overwrites the present record with one write of
// one block, so that an ended agent can still be restarted.
func (r record) write(path string) error {
	r.Stamp = Format.Stamp()
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	data = append(data, bytes.Repeat([]byte{' '}, max(0, recordBytes-len(data)))...)
	err = layout.Write(path, data, 0o600)
	if errors.Is(err, syscall.ENOSPC) && layout.Overwrite(path, data) == nil {
		return nil
	}
	return err
}

func removeRecord(path string) error {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = layout.SyncDir(filepath.Dir(path))
	}
	return err
}

// find returns the record with its process's identity, and whether the process still runs.
func (r record) find() (record, bool) {
	if r.Boot != proctree.BootID() {
		return r, false
	}
	if r.Pid == 0 {
		pid, ok := findToken(r.Token)
		if !ok {
			return r, false
		}
		r.Pid = pid
		r.Start, _ = proctree.StartTime(pid)
	}
	start, ok := proctree.StartTime(r.Pid)
	return r, ok && start == r.Start
}

// findToken returns the process that was started with a token. Only that process and its descendants can carry it: the
// record is the executor's alone, and the kernel shows an environment to its own user only. Every started process leads
// a session, and so may a descendant: of several leaders the first one counts.
func findToken(token string) (pid int, ok bool) {
	pids, _ := proctree.Of(token)
	leaders := map[int]uint64{}
	for _, pid := range pids {
		if s, ok := proctree.Read(pid); ok && s.Session == pid {
			leaders[pid] = s.Start
		}
	}
	return first(leaders)
}

// first returns the process that started first; of two in one tick, the one with the lower id.
func first(starts map[int]uint64) (pid int, ok bool) {
	for p, start := range starts {
		if !ok || start < starts[pid] || start == starts[pid] && p < pid {
			pid, ok = p, true
		}
	}
	return pid, ok
}

// members returns the processes of the session that the process of a record leads, the leader first; none when it
// does not run.
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
	all, _ := proctree.All() // without the list, the leader alone
	for _, pid := range all {
		if s, ok := proctree.Read(pid); ok && pid != r.Pid && s.Session == r.Pid {
			out = append(out, pid)
		}
	}
	return out
}

// storeName names the socket that systemd stores for an agent's next start.
const storeName = "garrison"

// storedWithin bounds the wait for systemd to store it.
const storedWithin = 10 * time.Second

// store has systemd keep a descriptor for the service's next start (sd_pid_notify_with_fds(3)), and returns when it
// does. systemd must not poll it: its other end is closed. Package net, and so go-systemd's daemon package, would open
// descriptors where the agent's belong; this uses bare system calls.
func store(fd int) error {
	to, err := notifier(os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		return fmt.Errorf("reach systemd: %w", err)
	}
	defer func() { _ = unix.Close(to) }()
	var done [2]int
	if err := unix.Pipe2(done[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer func() { _ = unix.Close(done[0]) }()
	// systemd closes its end of the pipe when it has processed all earlier messages.
	err = errors.Join(
		unix.Sendmsg(to, []byte("FDSTORE=1\nFDPOLL=0\nFDNAME="+storeName), unix.UnixRights(fd), nil, 0),
		unix.Sendmsg(to, []byte("BARRIER=1"), unix.UnixRights(done[1]), nil, 0),
		unix.Close(done[1]))
	if err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	for end := time.Now().Add(storedWithin); ; {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(done[0])}}, int(time.Until(end).Milliseconds()))
		switch {
		case n > 0:
			return nil // systemd closed its end
		case time.Now().After(end):
			return fmt.Errorf("systemd did not store the sockets within %s", storedWithin)
		case err != nil && !errors.Is(err, unix.EINTR):
			return err
		}
	}
}

// notifier connects to the notification socket.
func notifier(path string) (int, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	return fd, unix.Connect(fd, &unix.SockaddrUnix{Name: path}) // a leading @ means an abstract name
}
