package view

import (
	"slices"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/instance"
	"github.com/garrison-fleet/garrison/services/registry/internal/server"
	"github.com/garrison-fleet/garrison/services/registry/internal/task"
)

func (v *View) applyServer(f ledger.Fact) bool {
	have := row(v.servers, f.Key)
	if b, ok := f.Body.(*serverv1.Invited); ok && v.nameTaken(b.Name) {
		v.servers.Touch(f.Key, f.Sequence)
		return false
	}
	before := serverGroups(have)
	next, fit := server.Apply(have, f)
	if !fit {
		v.servers.Touch(f.Key, f.Sequence)
		return false
	}
	if next == nil {
		v.forget(f.Key, before)
		return true
	}
	v.servers.Put(f.Key, next, f.Sequence)
	v.serverBy.Change(f.Key, before, serverGroups(next))
	v.judgeDuty(f.Key)
	return true
}

func (v *View) nameTaken(name string) bool {
	for s := range v.ServersNamed(name) {
		if server.Living(s) {
			return true
		}
	}
	return false
}

// forget takes a server out of the view with everything that hangs on it, sequences
// included: a server's id never comes again, so no guard will ask for them.
func (v *View) forget(id string, groups []string) {
	v.servers.Forget(id)
	v.serverBy.Change(id, groups, nil)
	for _, key := range slices.Collect(v.instanceBy.Ascend(groupServer+id, "")) {
		v.instanceBy.Change(key, instanceGroups(row(v.instances, key)), nil)
		v.instances.Forget(key)
	}
	for a := range v.agents.All() {
		v.instances.Forget(ledger.Key(id, a)) // the sequences of those that are gone
	}
	for _, key := range slices.Collect(v.removedBy.Ascend(groupServer+id, "")) {
		v.noteRemoved(key, nil, 0)
	}
	v.judgeDuty(id)
}

func (v *View) applyInstance(f ledger.Fact) bool {
	have := row(v.instances, f.Key)
	before := instanceGroups(have)
	next, fit := instance.Apply(have, f)
	if fit {
		v.noteRemoved(f.Key, removed(have, f), f.Sequence)
	}
	if own(v.instances, f, next, fit); fit {
		v.instanceBy.Change(f.Key, before, instanceGroups(next))
		v.judgeDuty(serverOf(f.Key))
	}
	return fit
}

// removed returns what is kept of an instance that an intent removed, or nil.
func removed(i *instancev1.Instance, f ledger.Fact) *instancev1.Instance {
	b, ok := f.Body.(*instancev1.Gone)
	if !ok || b.Lost || i.GetBefore().GetImage() == nil {
		return nil
	}
	return &instancev1.Instance{
		Id: i.Id, ServerId: i.ServerId, Agent: i.Agent, Generation: i.Generation, IntentId: i.IntentId, Before: i.Before,
	}
}

// noteRemoved keeps what undoes the last removal at a key; nil when there is none.
func (v *View) noteRemoved(key string, next *instancev1.Instance, sequence uint64) {
	before := removedGroups(row(v.removed, key))
	if next == nil {
		v.removed.Forget(key)
	} else {
		v.removed.Put(key, next, sequence)
	}
	v.removedBy.Change(key, before, removedGroups(next))
}

// applyTask keeps an open task, and notes where it is in the instance that it changes.
// The instance's sequence stays: this is no fact on its key.
func (v *View) applyTask(f ledger.Fact) bool {
	switch f.Body.(type) {
	case *taskv1.Claimed:
		return true // it is about who admits tasks, which changes none
	case *taskv1.ReportedLate:
		return true // the task has ended; what the server has is its own list
	}
	next, fit := task.Apply(row(v.tasks, f.Key), f)
	if !fit {
		return follow(v.tasks, f, next, false)
	}
	key := ledger.Key(next.ServerId, next.Agent)
	if i, ok := v.instances.Get(key); ok {
		before := instanceGroups(i)
		instance.Note(i, next, f.At)
		if c, ok := f.Body.(*taskv1.Cancelled); ok && c.Withdrawn {
			instance.NoteWithdrawn(i, next)
		}
		v.instanceBy.Change(key, before, instanceGroups(i))
	}
	server := next.ServerId
	if task.Ended(next) {
		next = nil
	}
	follow(v.tasks, f, next, true)
	v.judgeDuty(server)
	return true
}
