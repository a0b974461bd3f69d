// Package reaper waits for orphans that end. The orphans of a container become children of its process 1. They stay
// zombies, each with its process id, until process 1 waits for them.
//
// Guarantees:
//
//  1. Only a child that this process did not start itself is waited for: package os has a file descriptor of each child
//     from before it runs until it was waited for (CLONE_PIDFD). So no exec.Cmd loses its exit status.
//  2. Where the kernel or /proc does not show these descriptors, nothing is waited for.
//  3. A process that is the parent of no orphans does nothing.
package reaper

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

const (
	gather   = 100 * time.Millisecond // how long ends are gathered before a look
	lookEach = 10 * time.Second       // also without a signal
)

// errBlind reports that the kernel does not distinguish the children that this process started from orphans.
var errBlind = errors.New("the kernel does not show which children this process started")

// Adopts reports whether orphans become children of this process.
func Adopts() bool {
	is := int32(0) // as wide as the kernel writes it
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&is)), 0, 0, 0)
	return os.Getpid() == 1 || err == nil && is != 0
}

// Run waits for orphans until ctx is done. It returns at once where this process has none.
func Run(ctx context.Context) error {
	if !Adopts() {
		return nil
	}
	mark, err := os.FindProcess(os.Getpid())
	if err != nil {
		return err
	}
	defer func() { _ = mark.Release() }()
	ends := make(chan os.Signal, 1)
	signal.Notify(ends, syscall.SIGCHLD)
	defer signal.Stop(ends)
	for {
		if err := reap(); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ends:
		case <-time.After(lookEach):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(gather):
		}
	}
}

// reap waits for each orphan that has ended.
func reap() error {
	zombies := proctree.Zombies(os.Getpid()) // before the look at what was started: a later child is not among them
	if len(zombies) == 0 {
		return nil
	}
	own, err := started()
	if err != nil {
		return err
	}
	if !own[os.Getpid()] { // the mark of Run
		return errBlind
	}
	for _, z := range zombies {
		if !own[z.Pid] {
			_, _ = unix.Wait4(z.Pid, nil, unix.WNOHANG, nil)
		}
	}
	return nil
}

// started returns the processes to which this one has a descriptor: each child that it started and did not wait for.
func started() (map[int]bool, error) {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil, err
	}
	out := map[int]bool{}
	for _, fd := range fds {
		link, err := os.Readlink(filepath.Join("/proc/self/fd", fd.Name()))
		if err == nil && !strings.Contains(link, "pidfd") { // anon_inode:[pidfd], or pidfd:[NUMBER]
			continue
		}
		info, err := os.ReadFile(filepath.Join("/proc/self/fdinfo", fd.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was closed meanwhile: whose it was was waited for
		}
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(info)) {
			if id, ok := strings.CutPrefix(line, "Pid:"); ok {
				if pid, err := strconv.Atoi(strings.TrimSpace(id)); err == nil {
					out[pid] = true
				}
			}
		}
	}
	return out, nil
}
