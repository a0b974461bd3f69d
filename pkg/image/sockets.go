package image

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
)

// maxSockets is how many sockets a manifest may name.
const maxSockets = 16

// checkSockets looks at the sockets that are opened for an agent. What a variable stands
// for is not known here; the executor looks again when it is.
func checkSockets(m *imagev1.Manifest) error {
	sockets := m.GetRun().GetSockets()
	if len(sockets) == 0 {
		return nil
	}
	if m.GetKind() != agentv1.Kind_KIND_DAEMON {
		return refuse(code.BadManifest, "run.sockets is there, but only kind daemon has sockets")
	}
	if len(sockets) > maxSockets {
		return refuse(code.BadManifest, "run.sockets has %d sockets, want at most %d", len(sockets), maxSockets)
	}
	names, addresses := map[string]bool{}, map[string]bool{}
	for _, s := range sockets {
		if err := ident.CheckName("run.sockets name", s.GetName()); err != nil {
			return refuse(code.BadManifest, "%v", err)
		}
		if names[s.Name] || addresses[s.Listen] {
			return refuse(code.BadManifest, "run.sockets names %s at %q, but that name or address is there before",
				s.Name, s.Listen)
		}
		names[s.Name], addresses[s.Listen] = true, true
		if !socketAddress(s.Listen) {
			return refuse(code.BadManifest,
				"run.sockets has %s listen at %q (want IP:PORT or :PORT, such as 127.0.0.1:8080)", s.Name, s.Listen)
		}
	}
	return nil
}

// socketAddress reports whether an address has the shape of one, variables aside.
func socketAddress(listen string) bool {
	const filled = "x" // stands in no address and in no port
	masked := variable.ReplaceAllString(listen, filled)
	if masked == filled {
		return true
	}
	host, port, err := net.SplitHostPort(masked)
	if err != nil {
		return false
	}
	if n, err := strconv.ParseUint(port, 10, 16); !strings.Contains(port, filled) && (err != nil || n == 0) {
		return false
	}
	_, err = netip.ParseAddr(host)
	return host == "" || strings.Contains(host, filled) || err == nil
}
