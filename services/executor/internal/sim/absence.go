package sim

import (
	"context"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// leavesOpen reports whether a server with the fault may leave a task open until its deadline.
func (f Fault) leavesOpen() bool { return f == Silent || f == Hanging || f == Vanishing }

// fails reports whether a change is rolled back because its version does not work here.
func (e *engine) fails(a plan.Action) bool {
	return a.Entry != nil && e.settings.Bad.hits(e.settings.Seed, e.name, a.Entry.GetImage().GetVersion())
}

// replaces reports whether an action changes the image of an agent that is there.
func (m *memory) replaces(a plan.Action) bool {
	have, ok := m.Agents[a.Agent()]
	return ok && a.Entry != nil && have.ImageID != a.Entry.GetImage().GetId()
}

// nameOf names a change.
func nameOf(a plan.Action) string { return a.Agent() + " " + a.TaskID() }

// hanging reports whether the change of an agent under way never ends by itself.
func (e *engine) hanging(agent string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hangs[agent] != ""
}

// unhang forgets the hanging changes that a document no longer asks for.
func (e *engine) unhang(d *desiredv1.Document) {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := map[string]bool{}
	for _, entry := range d.GetEntries() {
		asked[nameOf(plan.Action{Entry: entry})] = true
	}
	for agent, change := range e.hangs {
		if !asked[change] {
			delete(e.hangs, agent)
			delete(e.busy, agent)
		}
	}
}

// gone reports whether a vanishing server has nothing left to say. The caller holds mu.
func (e *engine) gone() bool {
	return e.fault == Vanishing && len(e.memory.Agents) > 0 && len(e.memory.Outbox) == 0 && len(e.busy) == 0
}

// vanished reports whether the server went away forever.
func (e *engine) vanished() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gone()
}

// vanish waits until the server goes away.
func (e *engine) vanish(ctx context.Context) error {
	select {
	case <-e.left.C():
		e.seen.Vanished.Add(1)
		return rungroup.ErrDone
	case <-ctx.Done():
		return ctx.Err()
	}
}
