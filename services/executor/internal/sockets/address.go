package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// address is where a socket listens. An unspecified host means all.
type address struct {
	network string // as package net names it
	host    netip.Addr
	port    uint16
}

// parse reads an address whose variables are filled in. It resolves no host names: an agent's address must not depend
// on a name server.
func parse(w *imagev1.Socket) (address, error) {
	bad := fault.Refusef(fault.Invalid, code.BadSocket,
		"the image's socket %s listens at %q, which is not IP:PORT or :PORT", w.GetName(), w.GetListen())
	host, port, err := net.SplitHostPort(w.GetListen())
	if err != nil {
		return address{}, bad
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return address{}, bad
	}
	if host == "" {
		return address{"tcp", netip.IPv6Unspecified(), uint16(n)}, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return address{}, bad
	}
	if ip.Is4() || ip.Is4In6() {
		return address{"tcp4", ip.Unmap(), uint16(n)}, nil
	}
	return address{"tcp6", ip, uint16(n)}, nil
}

// bind opens a socket at the address.
func (a address) bind(w *imagev1.Socket) (held, error) {
	var config net.ListenConfig
	config.SetMultipathTCP(false) // an agent expects a plain TCP socket
	l, err := config.Listen(context.Background(), a.network, w.GetListen())
	if errors.Is(err, unix.EADDRINUSE) {
		return held{}, errors.Join(fault.Refusef(fault.Invalid, code.SocketTaken,
			"the image's socket %s cannot be opened: another process listens at %s", w.GetName(), w.GetListen()), err)
	}
	if err != nil {
		return held{}, errors.Join(fault.Refusef(fault.Invalid, code.BadSocket,
			"the image's socket %s cannot be opened: %v", w.GetName(), err), err)
	}
	defer func() { _ = l.Close() }()
	raw, err := l.(syscall.Conn).SyscallConn()
	if err != nil {
		return held{}, err
	}
	// The listener's File would make the socket blocking for all who share it.
	fd := -1
	var failed error
	err = raw.Control(func(own uintptr) { fd, failed = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) })
	if err = errors.Join(err, failed); err != nil {
		return held{}, fmt.Errorf("open the socket at %s: %w", w.GetListen(), err)
	}
	inode, err := inodeOf(fd)
	if err != nil {
		return held{}, errors.Join(err, unix.Close(fd))
	}
	return held{fd: fd, inode: inode}, nil
}

func inodeOf(fd int) (uint64, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, fmt.Errorf("stat a socket: %w", err)
	}
	return st.Ino, nil
}

// listens reports whether a descriptor is a TCP socket that listens at the address.
func (a address) listens(fd int) bool {
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || listening != 1 {
		return false
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		return false
	}
	var host netip.Addr
	var port int
	switch n := name.(type) {
	case *unix.SockaddrInet4:
		host, port = netip.AddrFrom4(n.Addr), n.Port
	case *unix.SockaddrInet6:
		host, port = netip.AddrFrom16(n.Addr).Unmap(), n.Port
	default:
		return false
	}
	same := host == a.host.WithZone("") || host.IsUnspecified() && a.host.IsUnspecified()
	return same && port == int(a.port)
}

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
