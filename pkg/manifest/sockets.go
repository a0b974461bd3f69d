package manifest

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// maxSockets is how many sockets a manifest may name.
const maxSockets = 16

// sockets looks at the sockets that are opened for an agent. What a variable stands
// for is not known here; the executor looks again when it is.
func (f runFaults) sockets(m *imagev1.Manifest) {
	sockets := m.GetRun().GetSockets()
	if len(sockets) > 0 && m.GetKind() != agentv1.Kind_KIND_DAEMON {
		f.Add("run.sockets", code.BadManifest, "run.sockets is there, but only kind daemon has sockets")
	}
	f.tooMany("run.sockets", len(sockets), maxSockets)
	names, addresses := map[string]bool{}, map[string]bool{}
	for n, s := range sockets {
		field := at("run.sockets", n)
		if err := ident.CheckName("run.sockets name", s.GetName()); err != nil {
			f.Add(field, code.BadManifest, "%v", err)
		}
		if names[s.GetName()] || addresses[s.GetListen()] {
			f.Add(field, code.BadManifest, "run.sockets names %s at %q, but that name or address is there before",
				s.GetName(), s.GetListen())
		}
		names[s.GetName()], addresses[s.GetListen()] = true, true
		if !socketAddress(s.GetListen()) {
			f.Add(field, code.BadManifest, "run.sockets has %s listen at %q (want IP:PORT or :PORT, such as "+
				"127.0.0.1:8080)", s.GetName(), s.GetListen())
		}
	}
}

// socketAddress reports whether an address has the shape of one, variables aside.
func socketAddress(listen string) bool {
	const filled = "\x00" // stands in no address and in no port
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
