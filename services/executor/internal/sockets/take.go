package sockets

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// errNotHeld means that no process has the socket.
var errNotHeld = errors.New("no process has it")

// take duplicates a socket that listens at the address out of one of the processes: the one with the inode or, when
// inode is 0, any. It checks the duplicate, not the earlier answer of /proc, so a reused process id or descriptor does
// no harm.
func (a address) take(pids []int, inode uint64) (held, error) {
	return firstHeld(pids, func(pid int) (held, error) { return a.takeFrom(pid, inode) })
}

// firstHeld returns the first socket that try finds, else its last error.
func firstHeld[T any](all []T, try func(T) (held, error)) (held, error) {
	last := errNotHeld
	for _, one := range all {
		h, err := try(one)
		if err == nil {
			return h, nil
		}
		if !errors.Is(err, errNotHeld) {
			last = err
		}
	}
	return held{}, last
}

func (a address) takeFrom(pid int, inode uint64) (held, error) {
	process, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return held{}, errNotHeld
	}
	if err != nil {
		return held{}, fmt.Errorf("open process %d: %w", pid, err)
	}
	defer func() { _ = unix.Close(process) }()
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return held{}, fmt.Errorf("look for a socket: %w", err)
	}
	return firstHeld(entries, func(e os.DirEntry) (held, error) {
		link, _ := os.Readlink(filepath.Join(dir, e.Name())) // empty for one that was closed meanwhile
		if !isSocket(link, inode) {
			return held{}, errNotHeld
		}
		h, err := a.duplicate(process, e.Name(), inode)
		if err != nil && !errors.Is(err, errNotHeld) {
			err = fmt.Errorf("take a socket from process %d: %w", pid, err)
		}
		return h, err
	})
}

func isSocket(link string, inode uint64) bool {
	if inode == 0 {
		return strings.HasPrefix(link, "socket:[")
	}
	return link == "socket:["+strconv.FormatUint(inode, 10)+"]"
}

// duplicate returns one descriptor of a process if it is the wanted socket.
func (a address) duplicate(process int, name string, inode uint64) (held, error) {
	n, err := strconv.Atoi(name)
	if err != nil {
		return held{}, errNotHeld
	}
	fd, err := unix.PidfdGetfd(process, n, 0) // close-on-exec
	if errors.Is(err, unix.EBADF) || errors.Is(err, unix.ESRCH) {
		return held{}, errNotHeld
	}
	if err != nil {
		return held{}, err
	}
	got, err := inodeOf(fd)
	if err == nil && (inode != 0 && got != inode || !a.listens(fd) || !nonBlocking(fd)) {
		err = errNotHeld
	}
	if err != nil {
		return held{}, errors.Join(err, unix.Close(fd))
	}
	return held{fd: fd, inode: got}, nil
}

// nonBlocking reports whether a socket may be shared. A socket that a version opened itself may be blocking, and must
// stay so: the version expects it.
func nonBlocking(fd int) bool {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	return err == nil && flags&unix.O_NONBLOCK != 0
}
