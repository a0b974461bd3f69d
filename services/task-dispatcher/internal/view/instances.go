package view

import (
	"cmp"
	"slices"

	"github.com/tidwall/btree"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/task"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/opening"
)

// instances are the instances with the indexes by server and of those that need a task.
type instances struct {
	table    *fold.Table[*dispatcherv1.InstanceRecord] // by server and agent
	servers  *fold.Table[*dispatcherv1.ServerRecord]
	images   *images
	byServer map[string]map[string]*dispatcherv1.InstanceRecord // by server and agent
	due      btree.Map[uint64, string]                          // keys, by decided sequence
}

// change changes a record and updates what is derived from it.
func (n *instances) change(i *dispatcherv1.InstanceRecord, change func()) {
	n.unindex(i)
	change()
	n.index(i)
	n.review(i)
	n.images.sweep()
}

// overtaken reports whether a fact assigns at once what another decision took the place of meanwhile.
func (n *instances) overtaken(f ledger.Fact) bool {
	q := task.Opened(f.Body)
	i, _ := n.table.Get(ledger.Key(q.GetServerId(), q.GetAgent()))
	return instance.Overtaken(f.Body, i.GetInstanceId(), i.GetGeneration())
}

// settle records how a task that was under way left its instance.
func (n *instances) settle(i *dispatcherv1.InstanceRecord, end taskv1.State) {
	n.change(i, func() {
		i.OpenTaskId = ""
		switch end {
		case taskv1.State_STATE_EXPIRED:
			return // the entry stays: how far the server came is unknown
		case taskv1.State_STATE_SUCCEEDED:
			i.Removing = false
			if i.ObservedGeneration < i.PlacedGeneration { // it passed its health check, and was not seen since
				i.Unwell = false
			}
		case taskv1.State_STATE_UNDONE, taskv1.State_STATE_CANCELLED: // cancelled: its server gave it up untouched
			rollBack(i)
			i.Removing = false
		case taskv1.State_STATE_FAILED:
			if i.Removing {
				return // a failed removal stays in the document
			}
			rollBack(i)
		}
		i.Before, i.BeforeConfiguration, i.BeforeGeneration, i.Unsettled = nil, nil, 0, false
	})
}

// admitted places the image of an admitted task. What was placed when the task was queued may have
// been rolled back since, so the task's record is updated to what it starts from.
func (n *instances) admitted(
	i *dispatcherv1.InstanceRecord, id string, t *dispatcherv1.TaskRecord, a *agentv1.Agent,
) {
	n.change(i, func() {
		before, configuration := opening.From(i, t.Task.Generation)
		t.Task.From = before
		if before == nil && t.Task.To != nil && t.Task.Verb != taskv1.Verb_VERB_ADOPT {
			t.Task.Verb = taskv1.Verb_VERB_INSTALL
		}
		generation := i.PlacedGeneration
		if i.Unsettled && i.PlacedGeneration == t.Task.Generation {
			generation = i.BeforeGeneration
		}
		i.Before, i.BeforeConfiguration, i.BeforeGeneration = before, configuration, generation
		i.Placed, i.PlacedConfiguration, i.PlacedGeneration = t.Task.To, t.Configuration, t.Task.Generation
		i.Removing, i.Releasing = t.Task.To == nil, t.Task.Verb == taskv1.Verb_VERB_RELEASE
		i.PlacedCandidate = ""
		if t.Task.Verb == taskv1.Verb_VERB_ADOPT {
			i.PlacedCandidate = i.AdoptCandidate
		}
		i.OpenTaskId, i.Unsettled = id, true
		i.Tier, i.Dependencies = a.GetTier(), a.GetDependencies()
	})
}

// rollBack restores the entry from before the change.
func rollBack(i *dispatcherv1.InstanceRecord) {
	i.Placed, i.PlacedConfiguration, i.PlacedGeneration = i.Before, i.BeforeConfiguration, i.BeforeGeneration
}

func (n *instances) index(i *dispatcherv1.InstanceRecord) {
	of := n.byServer[i.ServerId]
	if of == nil {
		of = map[string]*dispatcherv1.InstanceRecord{}
		n.byServer[i.ServerId] = of
	}
	of[i.Agent] = i
	n.images.use(i.Wanted, i.Placed, i.Before)
}

func (n *instances) unindex(i *dispatcherv1.InstanceRecord) {
	n.due.Delete(i.DecidedSequence)
	if of := n.byServer[i.ServerId]; of != nil {
		if delete(of, i.Agent); len(of) == 0 {
			delete(n.byServer, i.ServerId)
		}
	}
	n.images.release(i.Wanted, i.Placed, i.Before)
}

// review updates the index due.
func (n *instances) review(i *dispatcherv1.InstanceRecord) {
	s, _ := n.servers.Get(i.ServerId)
	if opening.Due(i, s) > 0 {
		n.due.Set(i.DecidedSequence, ledger.Key(i.ServerId, i.Agent))
	} else {
		n.due.Delete(i.DecidedSequence)
	}
}

func (n *instances) reviewServer(server string) {
	for _, i := range n.byServer[server] {
		n.review(i)
	}
}

// dueOn returns the instances of a server that need a task, in the order of the facts that decided it.
func (n *instances) dueOn(server string) (due []*dispatcherv1.InstanceRecord) {
	for _, i := range n.byServer[server] {
		if _, ok := n.due.Get(i.DecidedSequence); ok {
			due = append(due, i)
		}
	}
	slices.SortFunc(due, func(a, b *dispatcherv1.InstanceRecord) int {
		return cmp.Compare(a.DecidedSequence, b.DecidedSequence)
	})
	return due
}
