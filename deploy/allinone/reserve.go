package allinone

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// reservation is an address that this process uses before it listens there: clients are refused, and no other process
// gets its port as a free one. A process that asks for this very port may still take it; then listening fails.
type reservation struct {
	port   int
	socket int
}

// reservePorts reserves the address for clients and, of a member of a cluster, the one for the other members. It fails
// at once when another process listens there: the embedded server itself would never be ready. Close releases them.
func (g *Garrison) reservePorts(host string, port int) (err error) {
	const clients = "choose an address with --listen HOST:PORT"
	if len(g.config.Cluster) == 0 {
		g.reserved, err = reserve("listen", host, port, clients)
		return err
	}
	own, err := g.config.Cluster.own(host, g.config.Advertise)
	if err != nil {
		return err
	}
	if own.Port == port {
		return fmt.Errorf("port %d is both for clients (--listen) and for the other members (--cluster); choose "+
			"another one with --listen HOST:PORT, or with HOST:PORT in --cluster", port)
	}
	if g.reserved, err = reserve("listen", host, port, clients); err != nil {
		return err
	}
	g.routes, err = reserve("listen for the other members", host, own.Port,
		"choose another port with "+own.Host+":PORT in --cluster, on each member")
	return err
}

// reserve reserves a TCP address; port 0 means a free one. An error begins with what the address is for and ends with
// the way out. The caller calls release.
func reserve(what, host string, port int, way string) (*reservation, error) {
	r, err := bind(host, port)
	if err == nil {
		return r, nil
	}
	address := net.JoinHostPort(host, strconv.Itoa(port))
	if errors.Is(err, syscall.EADDRINUSE) {
		way = "another garrisond, a nats-server, or --metrics of this one may have it; " + way
	}
	return nil, fmt.Errorf("%s at %s: %w; %s", what, address, err, way)
}

func bind(host string, port int) (*reservation, error) {
	address, err := net.ResolveTCPAddr("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	family, at := socketAddress(address)
	syscall.ForkLock.RLock()
	socket, err := syscall.Socket(family, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(socket)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	r := &reservation{socket: socket}
	// As with each listener of Go: two such sockets may have one address until one of them listens.
	if err = syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err == nil {
		err = syscall.Bind(socket, at)
	}
	if err == nil {
		r.port, err = portOf(socket)
	}
	if err != nil {
		r.release()
		return nil, os.NewSyscallError("bind", err)
	}
	return r, nil
}

// socketAddress returns an address as the system calls take it. Every address of IPv4 stands for a wildcard.
func socketAddress(a *net.TCPAddr) (family int, at syscall.Sockaddr) {
	if v4 := a.IP.To4(); v4 != nil || a.IP == nil || a.IP.IsUnspecified() {
		to := &syscall.SockaddrInet4{Port: a.Port}
		copy(to.Addr[:], v4)
		return syscall.AF_INET, to
	}
	to := &syscall.SockaddrInet6{Port: a.Port}
	copy(to.Addr[:], a.IP.To16())
	if zone, err := net.InterfaceByName(a.Zone); err == nil {
		to.ZoneId = uint32(zone.Index)
	}
	return syscall.AF_INET6, to
}

func portOf(socket int) (int, error) {
	at, err := syscall.Getsockname(socket)
	switch at := at.(type) {
	case *syscall.SockaddrInet4:
		return at.Port, nil
	case *syscall.SockaddrInet6:
		return at.Port, nil
	}
	return 0, err
}

// release ends the reservation. It may be called again.
func (r *reservation) release() {
	if r != nil && r.socket >= 0 {
		_ = syscall.Close(r.socket)
		r.socket = -1
	}
}
