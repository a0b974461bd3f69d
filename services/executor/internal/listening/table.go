package listening

import (
	"bufio"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
)

// listens is the state of a listening socket in the kernel's tables.
const listens = "0A"

// row is a listening socket of a table.
type row struct {
	at    netip.AddrPort
	inode string
}

// table returns the listening sockets of this network namespace in a table of the kernel, which has them before all
// others.
func table(name string) (rows []row) {
	f, err := os.Open("/proc/self/net/" + name)
	if err != nil {
		return nil // without IPv6 there is no table of it
	}
	defer func() { _ = f.Close() }()
	lines := bufio.NewScanner(f)
	lines.Scan() // the title
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[3] != listens {
			return rows
		}
		if at, ok := ParseAddress(fields[1]); ok {
			rows = append(rows, row{at, fields[9]})
		}
	}
	return rows
}

// ParseAddress reads ADDRESS:PORT as the kernel prints it: words of the machine's byte order, in hexadecimal.
func ParseAddress(s string) (netip.AddrPort, bool) {
	ip, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(ip)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word) // the supported platforms are little-endian
	}
	address, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(address, uint16(n)), ok
}

// At returns the inodes of the sockets that accept a connection to an address; none when the address is not this
// server's.
func At(to netip.AddrPort) []string {
	to = netip.AddrPortFrom(to.Addr().Unmap().WithZone(""), to.Port())
	if !local(to.Addr()) {
		return nil
	}
	return choose(to, table("tcp"), table("tcp6"))
}

// choose returns the sockets of the tables that accept a connection to an address.
func choose(to netip.AddrPort, four, six []row) []string {
	all := netip.AddrPortFrom(netip.IPv6Unspecified(), to.Port())
	if to.Addr().Is6() {
		return first(which(six, to), which(six, all))
	}
	mapped := netip.AddrPortFrom(netip.AddrFrom16(to.Addr().As16()), to.Port())
	return first(
		append(which(four, to), which(six, mapped)...),
		which(four, netip.AddrPortFrom(netip.IPv4Unspecified(), to.Port())), which(six, all),
	)
}

func which(rows []row, at netip.AddrPort) (inodes []string) {
	for _, r := range rows {
		if r.at == at {
			inodes = append(inodes, r.inode)
		}
	}
	return inodes
}

func first(lists ...[]string) []string {
	for _, l := range lists {
		if len(l) > 0 {
			return l
		}
	}
	return nil
}

// local reports whether an address is one of this server.
func local(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	addresses, err := net.InterfaceAddrs()
	return err == nil && slices.ContainsFunc(addresses, func(n net.Addr) bool {
		p, err := netip.ParsePrefix(n.String())
		return err == nil && p.Addr().Unmap() == a
	})
}
