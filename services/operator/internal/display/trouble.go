package display

import (
	"cmp"
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// trouble is the reason why a server does not carry out its document, although it may be online.
type trouble struct {
	word   string // shown in the state
	code   string
	reason string
	next   string
	since  *timestamppb.Timestamp
}

// troubleOf returns the worst trouble of a server; its word is empty when the server has none.
func troubleOf(s Server) trouble {
	a, d, c := s.GetAhead(), s.GetDuplicate(), s.GetCondition()
	switch {
	case Managed(s) && shutOut(s):
		return exclusionOf(s)
	case a != nil:
		return trouble{
			"ahead",
			code.LedgerBehind,
			AheadText(a),
			"garrison restore status --on " + s.GetName(),
			a.GetSince(),
		}
	case d != nil:
		reason := "executors beat on " + Sightings(d.GetSightings())
		return trouble{
			"duplicate", code.DuplicateIdentity, reason, "garrison server replace " + s.GetName() + " --force",
			d.GetSince(),
		}
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED:
		return trouble{"suspended", c.GetCode(), c.GetReason(), "garrison explain " + c.GetCode(), c.GetSince()}
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_BUSY:
		return trouble{"busy", c.GetCode(), c.GetReason(), "changes wait for its end", c.GetSince()}
	}
	return trouble{}
}

// exclusionOf describes why a server is quarantined or revoked.
func exclusionOf(s Server) trouble {
	e := s.GetExclusion()
	reason := e.GetReason()
	if e.GetActor() != "" {
		reason = strings.TrimPrefix(reason+", by "+e.GetActor(), ", ")
	}
	if s.GetStanding() == serverv1.Standing_STANDING_REVOKED {
		return trouble{"revoked", code.ServerRevoked, reason, "garrison server enroll " + s.GetName(), e.GetSince()}
	}
	return trouble{
		"quarantined", cmp.Or(e.GetCode(), code.ServerQuarantined), reason, "garrison server release " + s.GetName(),
		e.GetSince(),
	}
}

// AheadText describes by how much a server is ahead of the ledger.
func AheadText(a *serverv1.ServerAhead) string {
	p := a.GetPlace()
	return fmt.Sprintf("it applied document %d of epoch %d, which is missing from the ledger; the ledger ended at %d",
		p.GetGeneration(), p.GetEpoch(), a.GetLedgerEnd())
}

// Sightings names the machines that beat under the identity of one server.
func Sightings(of []*serverv1.Sighting) string {
	var out []string
	for _, m := range of {
		boot, session := ident.Short(m.GetBootId()), lastOf(m.GetSessionId())
		out = append(out, fmt.Sprintf("%s (boot %s, session %s)", output.Dash(m.GetHostname()), boot, session))
	}
	return strings.Join(out, " and ")
}

// TroubleLines returns a server's trouble, and each machine that beats as the server on a line of its own.
func TroubleLines(v output.View, s Server) string {
	line := TroubleLine(s)
	if machines := s.GetDuplicate().GetSightings(); len(machines) > 0 {
		line += "\n" + SightingLines(v, machines)
	}
	return line
}

// SightingLines describes each of the machines that beat under the identity of one server on a line.
func SightingLines(v output.View, of []*serverv1.Sighting) string {
	var lines []string
	for _, m := range of {
		line := Sightings([]*serverv1.Sighting{m})
		if m.GetSince() != nil {
			line += ", since " + output.Age(v, m.GetSince()) + " ago"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// lastOf returns the end of an id, which also differs between ids created at the same time.
func lastOf(id string) string { return id[max(0, len(id)-8):] }

// serverSince returns the time since which a server is in the state shown.
func serverSince(s Server) *timestamppb.Timestamp {
	if t := troubleOf(s); t.word != "" {
		return t.since
	}
	if under := s.GetReinstall(); under != nil {
		return under.GetSince()
	}
	return s.GetSince()
}

// TroubleLine returns a server's trouble on one line, or "" without trouble.
func TroubleLine(s Server) string {
	t := troubleOf(s)
	if t.word == "" {
		return ""
	}
	return strings.TrimSuffix(t.code+": "+t.reason, ": ")
}
