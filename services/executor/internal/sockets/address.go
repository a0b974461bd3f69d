package sockets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
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
