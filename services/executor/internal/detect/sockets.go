package detect

import (
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// maxTable is how much of one table of sockets is read, and maxSpaces how many network namespaces.
const (
	maxTable  = 16 << 20
	maxSpaces = 64
)

// sockets are the listening sockets of the server by inode, read once for each network namespace.
type sockets struct {
	spaces map[string]map[string]string // by namespace and inode
}

func newSockets() sockets { return sockets{map[string]map[string]string{}} }

// of returns the sockets on which a process listens, sorted.
func (s sockets) of(pid int) (out []string) {
	space, err := os.Readlink(proctree.Path(pid, "ns/net"))
	if err != nil {
		return nil
	}
	listening, ok := s.spaces[space]
	if !ok && len(s.spaces) < maxSpaces {
		listening = readSpace(pid)
		s.spaces[space] = listening
	}
	if len(listening) == 0 {
		return nil
	}
	for _, inode := range inodesOf(pid) {
		if at, ok := listening[inode]; ok {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// inodesOf returns the inodes of the sockets that a process holds.
func inodesOf(pid int) (out []string) {
	d, err := os.Open(proctree.Path(pid, "fd"))
	if err != nil {
		return nil
	}
	defer func() { _ = d.Close() }()
	names, _ := d.Readdirnames(64 << 10)
	for _, fd := range names {
		to, _ := os.Readlink(proctree.Path(pid, "fd/"+fd))
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			out = append(out, strings.TrimSuffix(inode, "]"))
		}
	}
	return out
}

// readSpace returns the listening sockets of a process's network namespace by inode.
func readSpace(pid int) map[string]string {
	out := map[string]string{}
	for _, protocol := range []string{"tcp", "tcp6", "udp", "udp6"} {
		readTable(pid, protocol, func(fields []string) {
			if at, inode, ok := listens(protocol, fields); ok {
				out[inode] = at
			}
		})
	}
	readTable(pid, "unix", func(fields []string) {
		if len(fields) > 7 && fields[3] == "00010000" { // it accepts connections
			out[fields[6]] = "unix " + fields[7]
		}
	})
	return out
}

func readTable(pid int, name string, row func(fields []string)) {
	for line := range strings.Lines(string(head(proctree.Path(pid, "net/"+name), maxTable))) {
		row(strings.Fields(line))
	}
}

// The states of sockets in the kernel's tables.
const (
	tcpListen = "0A"
	udpOpen   = "07"
)

// listens returns the address and the inode of a row of a table, when its socket listens.
func listens(protocol string, fields []string) (at, inode string, ok bool) {
	want := tcpListen
	if strings.HasPrefix(protocol, "udp") {
		want = udpOpen
	}
	if len(fields) < 10 || fields[3] != want {
		return "", "", false
	}
	address, ok := parseAddress(fields[1])
	return strings.TrimSuffix(protocol, "6") + " " + address, fields[9], ok
}

// parseAddress reads ADDRESS:PORT as the kernel prints it: words of the machine's byte order, in hexadecimal.
func parseAddress(s string) (string, bool) {
	ip, port, ok := strings.Cut(s, ":")
	raw, err := hex.DecodeString(ip)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(raw)%4 != 0 {
		return "", false
	}
	for word := range slices.Chunk(raw, 4) {
		slices.Reverse(word) // the supported platforms are little-endian
	}
	address, ok := netip.AddrFromSlice(raw)
	return net.JoinHostPort(fmt.Sprint(address.Unmap()), strconv.FormatUint(n, 10)), ok
}
