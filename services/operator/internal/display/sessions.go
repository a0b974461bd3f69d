package display

import (
	"fmt"
	"net"
	"slices"
	"strings"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// ExplainSessions returns the row of a server's connections when another machine may use its credentials: they come
// from several addresses, or surplus ones were ended.
func ExplainSessions(v output.View, s Server, r *accessv1.ServerSessions) (e Explanation, suspicious bool) {
	var hosts []string
	for _, session := range r.GetSessions() {
		host, _, err := net.SplitHostPort(session.GetAddress())
		if err != nil {
			host = session.GetAddress()
		}
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	if len(hosts) == 0 || len(hosts) == 1 && r.GetEnded() == 0 {
		return e, false
	}
	newest := r.GetSessions()[len(r.GetSessions())-1].GetSince()
	e = Explanation{
		What: "connections", Name: s.GetName(), State: "open",
		Is:    fmt.Sprintf("%d from %s", len(r.GetSessions()), strings.Join(hosts, ", ")),
		Since: output.Stamp(newest), Age: output.Age(v, newest),
		Next:   fmt.Sprintf("garrison server revoke %s, then garrison server enroll %s", s.GetName(), s.GetName()),
		Reason: "another machine may use its credentials",
	}
	if r.GetEnded() > 0 {
		e.Reason += fmt.Sprintf("; surplus connections ended: %d", r.GetEnded())
	}
	return e, true
}
