package detect

import (
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/services/executor/internal/listening"
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
	those, ok := s.spaces[space]
	if !ok && len(s.spaces) < maxSpaces {
		those = readSpace(pid)
		s.spaces[space] = those
	}
	if len(those) == 0 {
		return nil
	}
	for _, inode := range listening.Sockets(pid) {
		if at, ok := those[inode]; ok {
			out = append(out, at)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
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
	address, ok := listening.ParseAddress(fields[1])
	address = netip.AddrPortFrom(address.Addr().Unmap(), address.Port())
	return strings.TrimSuffix(protocol, "6") + " " + address.String(), fields[9], ok
}
