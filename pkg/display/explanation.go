package display

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/listing"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// ExplainDuty returns the row of one duty of a server.
func ExplainDuty(s Server, d *serverv1.Duty) Explanation {
	return Explanation{
		What:  "waits for",
		Name:  dutyText(s, d),
		State: "open",
		Since: listing.Stamp(d.GetSince()),
		Next:  dutyNext(s, d), Reason: d.GetReason(),
	}
}

// ExplainFound returns a row for each unmanaged agent on a server, or only those of one agent.
func ExplainFound(v listing.View, s Server, agent string) (rows []Explanation) {
	for _, f := range s.GetFound() {
		if agent == "" || agent == f.GetAgent() {
			rows = append(rows, Explanation{
				What: "found", Name: f.GetAgent(), Is: foundIs(v, f), State: foundCode(f),
				Since:  listing.Stamp(f.GetSince()),
				Next:   foundNext(s, f),
				Reason: foundWhose(f),
			})
		}
	}
	if n := s.GetFoundMore(); n > 0 && agent == "" {
		rows = append(rows, Explanation{What: "found", Is: fmt.Sprintf("and %d more", n)})
	}
	return rows
}

// ExplainUnknown returns the row of a sender of beats that is not under management.
func ExplainUnknown(u unknownServer) Explanation {
	return Explanation{
		What: "unknown", Name: u.GetServerId(), Is: cmp.Or(u.GetHostname(), u.GetName()), State: u.GetCode(),
		Since:  listing.Stamp(u.GetSince()),
		Next:   unknownNext(u),
		Reason: u.GetReason(),
	}
}

// Explanation is one row that explains a server: an object, its state, since when, the next step and the reason.
type Explanation struct {
	What   string `json:"what"`
	Name   string `json:"name"`
	Is     string `json:"is"`
	State  string `json:"state"`
	Since  string `json:"since"`
	Next   string `json:"next,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ExplanationList is the document that holds explanations.
type ExplanationList struct {
	Explained []Explanation `json:"explained"`
}

// Explanations lists explanations.
var Explanations = listing.Listing[Explanation]{
	Tells: true,
	Name:  func(w Explanation) string { return w.What + "/" + w.Name },
	Columns: []listing.Column[Explanation]{
		listing.Col("WHAT", func(w Explanation) string { return w.What }),
		listing.Col("NAME", func(w Explanation) string { return w.Name }),
		listing.Col("IS", func(w Explanation) string { return w.Is }),
		listing.Col("STATE", func(w Explanation) string { return w.State }),
		{
			Title: "SINCE", Value: func(v listing.View, w Explanation) string { return w.age(v) },
			Key: func(w Explanation) string { return w.Since },
		},
		listing.Col("NEXT", func(w Explanation) string { return w.Next }),
		listing.Col("REASON", func(w Explanation) string { return w.Reason }),
	},
}

// age returns how long a state lasts.
func (w Explanation) age(v listing.View) string {
	since, err := time.Parse(time.RFC3339, w.Since)
	if err != nil || v.Wide {
		return w.Since
	}
	return listing.Span(v.At.Sub(since))
}

// ExplainServer returns the row of a server.
func ExplainServer(v listing.View, s Server) Explanation {
	return Explanation{
		What: "server", Name: s.GetName(), Is: Platform(s.GetSysinfo().GetPlatform()), State: ServerState(s),
		Since:  listing.Stamp(serverSince(s)),
		Next:   serverNext(v, s),
		Reason: serverReason(s),
	}
}

// failedText returns what runs, with its health, and the version whose change failed.
func failedText(have, health, want string) string {
	runs := "runs " + listing.Dash(have)
	if health != "" {
		runs += " (" + health + ")"
	}
	return runs + ", " + listing.Dash(want) + " failed"
}

// ExplainInstance returns the row of an instance.
func ExplainInstance(v listing.View, r Instance) Explanation {
	i := r.GetInstance()
	is := i.GetObserved().GetVersion()
	health := listing.Word(i.GetHealth())
	if serverOffline(r) && health != "" {
		health = "was " + health
	}
	switch want := i.GetWanted().GetVersion(); {
	case want != is && i.GetState() == instancev1.State_STATE_FAILED:
		is, health = failedText(is, health, want), ""
	case want != is && !r.GetByHand():
		is = listing.Dash(is) + " → " + listing.Dash(want)
	}
	if health != "" {
		is += " " + health
	}
	if failed := i.GetFailed(); failed != nil && i.GetState() != instancev1.State_STATE_FAILED {
		is += ", " + failed.GetVersion() + " failed"
	}
	if at := i.GetConfirmedAt(); at != nil && r.GetPresence() != serverv1.Presence_PRESENCE_ONLINE {
		is += ", " + listing.Age(v, at) + " ago"
	}
	return Explanation{
		What: "agent", Name: i.GetAgent(), Is: is, State: instanceState(v, r),
		Since:  listing.Stamp(i.GetSince()),
		Next:   instanceNext(v, r),
		Reason: cmp.Or(i.GetReason(), ByHand(r)),
	}
}

// ExplainTask returns the row of a task.
func ExplainTask(v listing.View, t Task) Explanation {
	is := VerbText(t)
	if t.GetAgent() != "" {
		is += " " + t.GetAgent()
	}
	if from, to := t.GetFrom().GetVersion(), t.GetTo().GetVersion(); from != to {
		is += " " + listing.Dash(from) + " → " + listing.Dash(to)
	}
	next := taskNext(v, t)
	if next == "" && t.GetOutcome().GetCode() != "" {
		next = "garrison task show " + ident.Short(t.GetId())
	}
	return Explanation{
		What: "task", Name: listing.ShortID(v, t.GetId()), Is: is, State: listing.Word(t.GetState()),
		Since: listing.Stamp(t.GetSince()), Next: next, Reason: whyRunning(v, t),
	}
}

// whyRunning returns the reason of a task's state; for a running task its step and whether that step is slow.
func whyRunning(v listing.View, t Task) string {
	if live := LiveText(v, t); live != "" && LiveStep(t.GetLive()) == "" {
		return strings.TrimPrefix(TaskReason(t)+"; "+live, "; ")
	} else if live != "" {
		return strings.TrimPrefix(TaskReason(t)+"; at "+live, "; ")
	}
	return TaskReason(t)
}

// usualCheck is how often an executor looks at its agents unless it is started with another --check-interval.
const usualCheck = 15 * time.Second

// ExplainStops returns a row for what stops changes of an instance: its hold, and the block of the wanted build.
func ExplainStops(v listing.View, r Instance) (rows []Explanation) {
	if h := r.GetHold(); h != nil {
		next := "garrison unhold --id " + ident.Short(h.GetId())
		if h.GetUntil() != nil {
			next = "ends " + listing.Until(v, h.GetUntil()) + "; " + next
		}
		rows = append(rows, Explanation{
			What: "hold", Name: h.GetAgent(), Is: "no change begins", State: "held",
			Since: listing.Stamp(h.GetSetAt()), Next: next,
			Reason: HoldText(h),
		})
	}
	if b := r.GetBlock(); b != nil {
		rows = append(rows, Explanation{
			What: "block", Name: BuildText(b.GetBuild()), Is: "no longer installed", State: "blocked",
			Since:  listing.Stamp(b.GetSetAt()),
			Next:   "garrison unblock " + ident.Short(b.GetId()) + ", or another build",
			Reason: BlockText(b),
		})
	}
	return rows
}

// ExplainClosed returns the row of an environment that lets no change begin.
func ExplainClosed(v listing.View, c *registryv1.Closed) []Explanation {
	if c == nil {
		return nil
	}
	next := "garrison env show " + c.GetEnvironment()
	if c.GetOpensAt() != nil {
		next = "opens " + listing.Until(v, c.GetOpensAt()) + " at " + listing.Stamp(c.GetOpensAt())
	}
	return []Explanation{{
		What: "environment", Name: c.GetEnvironment(), Is: "no change begins", State: "closed", Next: next,
		Reason: c.GetReason(),
	}}
}

// ExplainLook returns when the executor of a server looked at its agents last, and when it does so again.
func ExplainLook(s Server) []Explanation {
	at := s.GetInventoryConfirmedAt()
	if !Managed(s) || at == nil {
		return nil
	}
	row := Explanation{
		What: "executor", Name: s.GetSysinfo().GetExecutorVersion(), Is: "looked at its agents", State: "looks",
		Since: listing.Stamp(at),
		Next:  "looks again every " + usualCheck.String() + ", unless its --check-interval is another",
	}
	if s.GetPresence() != serverv1.Presence_PRESENCE_ONLINE {
		row.State, row.Next = "away", "looks again by itself, and reports once it is back"
	}
	return []Explanation{row}
}
