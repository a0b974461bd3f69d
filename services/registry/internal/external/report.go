// Package external decides what a report about external instances changes. It is pure: it reads the view and returns
// facts.
//
// Guarantees:
//
//  1. Only the reporter that an agent names reports its instances.
//  2. An instance goes only when a report is complete for a range that holds its name.
//  3. One instance that cannot be recorded holds up none of the others.
package external

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/budget"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

// Reader is what a decision reads of the registry's view.
type Reader interface {
	selector.Reader
	Agent(name string) (*agentv1.Agent, bool)
	AgentNames() iter.Seq[string]
	External(agent, name string) (*externalv1.External, bool)
	ExternalsIn(agent, from string) iter.Seq2[string, *externalv1.External] // by name
}

// Change is a fact about the instance with a name: a Reported or a Gone.
type Change struct {
	Name string
	Body proto.Message
}

// Decision is what a report changes.
type Decision struct {
	Changes   []Change
	Confirmed []string // names of instances that are as recorded
	LeftOut   []*registryv1.LeftOutExternal
}

// Report decides on a report. A refusal is about all of it.
func Report(r Reader, caller string, q *registryv1.ReportExternalRequest, now time.Time) (Decision, *apiv1.Refusal) {
	if refusal := mayReport(r, caller, q.Agent); refusal != nil {
		return Decision{}, refusal
	}
	var d Decision
	listed := map[string]bool{}
	for _, f := range q.Found {
		if listed[f.Name] {
			d.leaveOut(f.Name, bad("the report lists it twice"))
			continue
		}
		listed[f.Name] = true
		d.found(r, q.Agent, f, now)
	}
	if q.Complete != nil {
		d.missing(r, q, listed)
	}
	return d, nil
}

// mayReport refuses an agent that the caller may not report.
func mayReport(r Reader, caller, agent string) *apiv1.Refusal {
	a, ok := r.Agent(agent)
	switch {
	case !ok:
		return &apiv1.Refusal{
			Code: code.UnknownAgent, Message: fmt.Sprintf("no agent %q", agent),
			Nearest: nearest.Name(agent, r.AgentNames()),
			Try:     "garrison agent create " + agent + " --kind external --reporter " + caller,
		}
	case a.Kind != agentv1.Kind_KIND_EXTERNAL || a.Reporter != caller:
		return &apiv1.Refusal{
			Code: code.NotReporter, Message: fmt.Sprintf("%s is not the reporter of agent %q", caller, agent),
			Try: "garrison agent show " + agent,
		}
	}
	return nil
}

// found decides on one instance of a report.
func (d *Decision) found(r Reader, agent string, f *externalv1.Found, now time.Time) {
	if problem := check(f); problem != "" {
		d.leaveOut(f.Name, bad(problem))
		return
	}
	f = proto.CloneOf(f)
	if f.Server != "" {
		s, refusal := selector.Find(r, f.Server)
		if refusal == nil && !server.Living(s) {
			refusal = bad(fmt.Sprintf("server %s is dead", s.Name))
		}
		if refusal != nil {
			d.leaveOut(f.Name, refusal)
			return
		}
		f.Server = s.Id
	}
	have, _ := r.External(agent, f.Name)
	switch {
	case have != nil && same(have.Found, f):
		d.Confirmed = append(d.Confirmed, f.Name)
		return
	case !budget.MayChange(have.GetChangedUntil(), now):
		d.leaveOut(f.Name, &apiv1.Refusal{
			Code: code.Busy, RetryAfterMs: uint32(budget.Due(have.ChangedUntil).Sub(now).Milliseconds()),
			Message: fmt.Sprintf("it changed %d times in a row, and may change once in %v now", budget.Burst,
				budget.Every),
		})
		return
	}
	d.Changes = append(d.Changes, Change{f.Name, &externalv1.Reported{Found: f}})
}

// missing decides that what is recorded in the range and was not listed is gone. What was listed and left out stays.
func (d *Decision) missing(r Reader, q *registryv1.ReportExternalRequest, listed map[string]bool) {
	for name := range r.ExternalsIn(q.Agent, q.Complete.From) {
		if q.Complete.Before != "" && name >= q.Complete.Before {
			return
		}
		if !listed[name] {
			d.Changes = append(d.Changes, Change{name, &externalv1.Gone{}})
		}
	}
}

// LeaveOut adds changes to those that are left out, for one reason.
func (d *Decision) LeaveOut(changes []Change, why *apiv1.Refusal) {
	for _, x := range changes {
		d.leaveOut(x.Name, why)
	}
}

func (d *Decision) leaveOut(name string, why *apiv1.Refusal) {
	d.LeftOut = append(d.LeftOut, &registryv1.LeftOutExternal{Name: name, Refusal: why})
}

func same(a, b *externalv1.Found) bool {
	return a.Server == b.Server && a.Version == b.Version && a.Health == b.Health && a.Reason == b.Reason &&
		bytes.Equal(a.Digest, b.Digest) && maps.Equal(a.Properties, b.Properties)
}

func bad(problem string) *apiv1.Refusal {
	return &apiv1.Refusal{Code: code.Invalid, Message: problem}
}
