package display

import (
	"cmp"
	"fmt"
	"strings"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// ExplainDuty returns the row of one duty of a server.
func ExplainDuty(v output.View, s Server, d *serverv1.Duty) Explanation {
	return Explanation{
		What:  "waits for",
		Name:  dutyText(s, d),
		State: "open",
		Since: output.Stamp(d.GetSince()),
		Age:   output.Age(v, d.GetSince()),
		Next:  dutyNext(s, d), Reason: d.GetReason(),
	}
}

// ExplainFound returns a row for each unmanaged agent on a server, or only those of one agent.
func ExplainFound(v output.View, s Server, agent string) (rows []Explanation) {
	for _, f := range s.GetFound() {
		if agent == "" || agent == f.GetAgent() {
			rows = append(rows, Explanation{
				What: "found", Name: f.GetAgent(), Is: foundIs(v, f), State: foundCode(f),
				Since:  output.Stamp(f.GetSince()),
				Age:    output.Age(v, f.GetSince()),
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
func ExplainUnknown(v output.View, u unknownServer) Explanation {
	return Explanation{
		What: "unknown", Name: u.GetServerId(), Is: cmp.Or(u.GetHostname(), u.GetName()), State: u.GetCode(),
		Since:  output.Stamp(u.GetSince()),
		Age:    output.Age(v, u.GetSince()),
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
	Age    string
}

// ExplanationList is the document that holds explanations.
type ExplanationList struct {
	Explained []Explanation `json:"explained"`
}

// Explanations lists explanations.
var Explanations = output.Listing[Explanation]{
	Name: func(w Explanation) string { return w.What + "/" + w.Name },
	Columns: []output.Column[Explanation]{
		output.Col("WHAT", func(w Explanation) string { return w.What }),
		output.Col("NAME", func(w Explanation) string { return w.Name }),
		output.Col("IS", func(w Explanation) string { return w.Is }),
		output.Col("STATE", func(w Explanation) string { return w.State }),
		{Title: "SINCE", Value: func(_ output.View,
			w Explanation) string {
			return w.Age
		}, Key: func(w Explanation) string { return w.Since }},
		output.Col("NEXT", func(w Explanation) string { return w.Next }),
		output.Col("REASON", func(w Explanation) string { return w.Reason }),
	},
}

// ExplainServer returns the row of a server.
func ExplainServer(v output.View, s Server) Explanation {
	return Explanation{
		What: "server", Name: s.GetName(), Is: Platform(s.GetSysinfo().GetPlatform()), State: ServerState(s),
		Since:  output.Stamp(serverSince(s)),
		Age:    output.Age(v, serverSince(s)),
		Next:   serverNext(v, s),
		Reason: serverReason(s),
	}
}

// failedText returns what runs, with its health, and the version whose change failed.
func failedText(have, health, want string) string {
	runs := "runs " + output.Dash(have)
	if health != "" {
		runs += " (" + health + ")"
	}
	return runs + ", " + output.Dash(want) + " failed"
}

// ExplainInstance returns the row of an instance.
func ExplainInstance(v output.View, r Instance) Explanation {
	i := r.GetInstance()
	is := i.GetObserved().GetVersion()
	health := output.Word(i.GetHealth())
	if serverOffline(r) && health != "" {
		health = "was " + health
	}
	switch want := i.GetWanted().GetVersion(); {
	case want != is && i.GetState() == instancev1.State_STATE_FAILED:
		is, health = failedText(is, health, want), ""
	case want != is && !r.GetByHand():
		is = output.Dash(is) + " → " + output.Dash(want)
	}
	if health != "" {
		is += " " + health
	}
	if failed := i.GetFailed(); failed != nil && i.GetState() != instancev1.State_STATE_FAILED {
		is += ", " + failed.GetVersion() + " failed"
	}
	if at := i.GetConfirmedAt(); at != nil && r.GetPresence() != serverv1.Presence_PRESENCE_ONLINE {
		is += ", " + output.Age(v, at) + " ago"
	}
	return Explanation{
		What: "agent", Name: i.GetAgent(), Is: is, State: instanceState(v, r),
		Since:  output.Stamp(i.GetSince()),
		Age:    output.Age(v, i.GetSince()),
		Next:   instanceNext(v, r),
		Reason: cmp.Or(i.GetReason(), ByHand(r)),
	}
}

// ExplainTask returns the row of a task.
func ExplainTask(v output.View, t Task) Explanation {
	is := VerbText(t)
	if t.GetAgent() != "" {
		is += " " + t.GetAgent()
	}
	if from, to := t.GetFrom().GetVersion(), t.GetTo().GetVersion(); from != to {
		is += " " + output.Dash(from) + " → " + output.Dash(to)
	}
	next := taskNext(v, t)
	if next == "" && t.GetOutcome().GetCode() != "" {
		next = "garrison task show " + ident.Short(t.GetId())
	}
	return Explanation{
		What: "task", Name: output.ShortID(v, t.GetId()), Is: is, State: output.Word(t.GetState()),
		Since: output.Stamp(t.GetSince()), Age: output.Age(v, t.GetSince()), Next: next, Reason: whyRunning(v, t),
	}
}

// whyRunning returns the reason of a task's state; for a running task its step and whether that step is slow.
func whyRunning(v output.View, t Task) string {
	if live := LiveText(v, t); live != "" && LiveStep(t.GetLive()) == "" {
		return strings.TrimPrefix(TaskReason(t)+"; "+live, "; ")
	} else if live != "" {
		return strings.TrimPrefix(TaskReason(t)+"; at "+live, "; ")
	}
	return TaskReason(t)
}
