package display

import (
	"time"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// usualCheck is how often an executor looks at its agents unless it is started with another --check-interval.
const usualCheck = 15 * time.Second

// ExplainStops returns a row for what stops changes of an instance: its hold, and the block of the wanted build.
func ExplainStops(v output.View, r Instance) (rows []Explanation) {
	if h := r.GetHold(); h != nil {
		next := "garrison unhold --id " + ident.Short(h.GetId())
		if h.GetUntil() != nil {
			next = "ends " + output.Until(v, h.GetUntil()) + "; " + next
		}
		rows = append(rows, Explanation{
			What: "hold", Name: h.GetAgent(), Is: "no change begins", State: "held",
			Since: output.Stamp(h.GetSetAt()), Age: output.Age(v, h.GetSetAt()), Next: next,
			Reason: HoldText(h),
		})
	}
	if b := r.GetBlock(); b != nil {
		rows = append(rows, Explanation{
			What: "block", Name: BuildText(b.GetBuild()), Is: "no longer installed", State: "blocked",
			Since: output.Stamp(b.GetSetAt()), Age: output.Age(v, b.GetSetAt()),
			Next:   "garrison block remove " + ident.Short(b.GetId()) + ", or another build",
			Reason: BlockText(b),
		})
	}
	return rows
}

// ExplainClosed returns the row of an environment that lets no change begin.
func ExplainClosed(v output.View, c *registryv1.Closed) []Explanation {
	if c == nil {
		return nil
	}
	next := "garrison env show " + c.GetEnvironment()
	if c.GetOpensAt() != nil {
		next = "opens " + output.Until(v, c.GetOpensAt()) + " at " + output.Stamp(c.GetOpensAt())
	}
	return []Explanation{{
		What: "environment", Name: c.GetEnvironment(), Is: "no change begins", State: "closed", Next: next,
		Reason: c.GetReason(),
	}}
}

// ExplainLook returns when the executor of a server looked at its agents last, and when it does so again.
func ExplainLook(v output.View, s Server) []Explanation {
	at := s.GetInventoryConfirmedAt()
	if !Managed(s) || at == nil {
		return nil
	}
	row := Explanation{
		What: "executor", Name: s.GetSysinfo().GetExecutorVersion(), Is: "looked at its agents", State: "looks",
		Since: output.Stamp(at), Age: output.Age(v, at),
		Next: "looks again every " + usualCheck.String() + ", unless its --check-interval is another",
	}
	if s.GetPresence() != serverv1.Presence_PRESENCE_ONLINE {
		row.State, row.Next = "away", "looks again by itself, and reports once it is back"
	}
	return []Explanation{row}
}
