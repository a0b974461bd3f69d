package operator

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/timestamppb"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// trouble is why a server does not do what is asked of it, though it may be online.
type trouble struct {
	word   string // in its state
	code   string
	reason string
	next   string
	since  *timestamppb.Timestamp
}

// troubleOf returns the worst trouble of a server; its word is empty when there is none.
func troubleOf(s server) trouble {
	a, d, c := s.GetAhead(), s.GetDuplicate(), s.GetCondition()
	switch {
	case a != nil:
		return trouble{"ahead", "LEDGER_BEHIND", aheadText(a), "garrison restore status --on " + s.GetName(), a.GetSince()}
	case d != nil:
		reason := "executors beat on " + sightings(d.GetSightings())
		return trouble{"duplicate", "DUPLICATE_IDENTITY", reason, "garrison explain DUPLICATE_IDENTITY", d.GetSince()}
	case c.GetState() == serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED:
		return trouble{"suspended", c.GetCode(), c.GetReason(), "garrison explain " + c.GetCode(), c.GetSince()}
	}
	return trouble{}
}

// aheadText says by how much a server is ahead of the ledger.
func aheadText(a *serverv1.ServerAhead) string {
	p := a.GetPlace()
	return fmt.Sprintf("it applied document %d of epoch %d, which the ledger does not have; the ledger ended at %d",
		p.GetGeneration(), p.GetEpoch(), a.GetLedgerEnd())
}

// sightings names the machines that beat as one server.
func sightings(of []*serverv1.Sighting) string {
	var out []string
	for _, m := range of {
		boot, session := ident.Short(m.GetBootId()), lastOf(m.GetSessionId())
		out = append(out, fmt.Sprintf("%s (boot %s, session %s)", dash(m.GetHostname()), boot, session))
	}
	return strings.Join(out, " and ")
}

// lastOf returns the end of an id, which differs also between ids that were made at one time.
func lastOf(id string) string { return id[max(0, len(id)-8):] }

// serverSince says since when a server is as it is shown.
func serverSince(s server) *timestamppb.Timestamp {
	if t := troubleOf(s); t.word != "" {
		return t.since
	}
	return s.GetSince()
}

// troubleLine says a server's trouble on one line; empty when there is none.
func troubleLine(s server) string {
	t := troubleOf(s)
	if t.word == "" {
		return ""
	}
	return strings.TrimSuffix(t.code+": "+t.reason, ": ")
}
