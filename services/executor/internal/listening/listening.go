// Package listening finds who listens at an address of this server.
//
// Guarantees:
//
//  1. At returns the sockets that the kernel connects a caller to: those at the very address, or else those at all
//     addresses. An IPv6 socket at all addresses counts for IPv4 where no IPv4 socket does.
//  2. An address of another server, or one that only a rule of the kernel forwards, has no sockets here.
//  3. Who returns a process of the caller's before any other.
package listening

import (
	"bufio"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
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

// maxOpen is how many open files of a process are looked at.
const maxOpen = 64 << 10

// Sockets returns the inodes of the sockets that a process holds.
func Sockets(pid int) []string {
	inodes, _ := held(pid) // one that ended, or that is hidden, holds none that is known
	return inodes
}

func held(pid int) (inodes []string, err error) {
	d, err := os.Open(proctree.Path(pid, "fd"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = d.Close() }()
	names, err := d.Readdirnames(maxOpen)
	for _, fd := range names {
		to, _ := os.Readlink(proctree.Path(pid, "fd/"+fd))
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes, err
}

// Holder is who holds some sockets. The zero value is unknown: the kernel hides the open files of some processes.
type Holder struct {
	Pid     int
	Mine    bool // it is the caller's
	Outside bool // no process that this server's executor sees has them
}

// Any reports whether one of some processes holds one of some sockets.
func Any(inodes []string, pids []int) bool {
	return slices.ContainsFunc(pids, func(pid int) bool {
		is, _ := holds(pid, inodes)
		return is
	})
}

func holds(pid int, inodes []string) (is, hidden bool) {
	has, err := held(pid)
	is = slices.ContainsFunc(has, func(inode string) bool { return slices.Contains(inodes, inode) })
	return is, errors.Is(err, fs.ErrPermission)
}

// Who looks at all processes, and returns who holds one of some sockets. isMine reports whether a process is the
// caller's, which is asked only of those that hold one.
func Who(inodes []string, isMine func(pid int) bool) Holder {
	all, err := proctree.All()
	var others []int
	blind := err != nil
	for _, pid := range all {
		is, hidden := holds(pid, inodes)
		blind = blind || hidden
		switch {
		case is && isMine(pid):
			return Holder{Pid: pid, Mine: true}
		case is:
			others = append(others, pid)
		}
	}
	pid := eldest(others, func(pid int) int { s, _ := proctree.Read(pid); return s.Parent })
	return Holder{Pid: pid, Outside: pid == 0 && !blind}
}

// eldest returns the first of some processes that has none of the others as its parent, or 0. Those that a program
// starts may have its sockets too, some only until they execute another program.
func eldest(pids []int, parent func(pid int) int) int {
	for _, pid := range pids {
		if !slices.Contains(pids, parent(pid)) {
			return pid
		}
	}
	return 0
}

// String names the process for people.
func (h Holder) String() string {
	if h.Pid == 0 {
		return "a process that the executor does not see"
	}
	name, err := os.ReadFile(proctree.Path(h.Pid, "comm"))
	if err != nil {
		return fmt.Sprintf("process %d", h.Pid)
	}
	return fmt.Sprintf("process %d (%s)", h.Pid, strings.ToValidUTF8(strings.TrimSpace(string(name)), "?"))
}
