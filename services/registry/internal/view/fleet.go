package view

import (
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/index"
	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
)

func (v *View) applyServer(f ledger.Fact) bool {
	have := row(v.servers, f.Key)
	switch b := f.Body.(type) {
	case *serverv1.Invited:
		switch {
		case !v.NameTaken(b.Name, ""):
		case b.Token == "" && b.LobbyFingerprint == "":
			v.servers.Touch(f.Key, f.Sequence)
			return false
		default:
			// It enrolled in the same step, so it exists; another writer took its name a moment before.
			f.Body = renamed(b, f.Key)
		}
	case *serverv1.Changed:
		if b.Name != "" && v.NameTaken(b.Name, f.Key) {
			v.servers.Touch(f.Key, f.Sequence)
			return false
		}
	}
	before, boot := serverGroups(have), have.GetBootId()
	next, fit := server.Apply(have, f)
	if !fit {
		v.servers.Touch(f.Key, f.Sequence)
		return false
	}
	v.rolloutServer(f.Key, f)
	if next == nil {
		v.forget(f.Key, before)
		return true
	}
	intake.Server(next, boot, f)
	v.shared.server(next)
	v.servers.Put(f.Key, next, f.Sequence)
	v.serverBy.Change(f.Key, before, serverGroups(next))
	if have == nil {
		v.indexInstancesOn(f.Key)
	}
	v.placeExecutor(f.Key)
	if next.Life == serverv1.Life_LIFE_DEAD {
		v.dropExternalsOn(f.Key)
	}
	v.reviewDuty(f.Key)
	return true
}

// indexInstancesOn connects the instances that were recorded before their server with it.
func (v *View) indexInstancesOn(id string) {
	for i := range v.InstancesOf(id) {
		v.placeInstance(ledger.Key(id, i.Agent), fieldsOf(i), i)
	}
}

// renamed returns an invitation with a name that no other server has.
func renamed(b *serverv1.Invited, id string) *serverv1.Invited {
	next := proto.CloneOf(b)
	next.Name = b.Name + "-" + ident.Short(id)
	return next
}

// NameTaken reports whether another living server has a name. Two registries may admit one name at once; the view
// takes the first in the ledger.
func (v *fleet) NameTaken(name, but string) bool { return v.NameHolder(name, but) != "" }

// NameHolder returns the name of the living server, other than one, that has a name; empty without one.
func (v *fleet) NameHolder(name, but string) string {
	for s := range v.ServersNamed(name) {
		if server.Living(s) && s.Id != but {
			return s.Name
		}
	}
	return ""
}

// LastOn returns the sequence of the last fact about a server or an instance on it, also one that is gone.
func LastOn(v *View, server string) uint64 {
	last := v.servers.Sequence(server)
	for agent := range v.agents.Keys() { // an instance is of an agent that is or was there
		last = max(last, v.instances.Sequence(ledger.Key(server, agent)))
	}
	return last
}

// forget removes a server from the view with all its records and their sequences: a server's id is
// never used again, so no guard will need them.
func (v *View) forget(id string, groups []index.Group) {
	v.dropExecutor(id)
	v.servers.Forget(id)
	v.serverBy.Change(id, groups, nil)
	for _, key := range slices.Collect(v.instanceBy.Prefixed(groupAll, ledger.Key(id, ""), "")) {
		v.indexInstance(key, fieldsOf(row(v.instances, key)), nil)
		v.instances.Forget(key)
	}
	for a := range v.agents.Keys() {
		v.instances.Forget(ledger.Key(id, a)) // the sequences of gone instances
	}
	for _, key := range slices.Collect(v.removedBy.Prefixed(groupAll, ledger.Key(id, ""), "")) {
		v.setRemoved(key, nil, 0)
	}
	v.reviewDuty(id)
}

func (v *View) applyInstance(f ledger.Fact) bool {
	if id, agent, _ := strings.Cut(f.Key, "."); v.isSelf(agent) {
		v.dropExecutor(id)
		defer v.placeExecutor(id)
	}
	have := row(v.instances, f.Key)
	before, generation := fieldsOf(have), have.GetObservedGeneration()
	next, fit := instance.Apply(have, f)
	if fit {
		v.setRemoved(f.Key, removed(have, f), f.Sequence)
	}
	_, observed := f.Body.(*instancev1.Observed)
	if observed && fit {
		intake.Observed(next, row(v.servers, serverOf(f.Key)), generation, f)
	}
	if own(v.instances, f, next, fit); fit {
		v.shared.instance(next)
		v.indexInstance(f.Key, before, next)
		v.reviewInstance(serverOf(f.Key), next)
	}
	switch b := f.Body.(type) {
	case *instancev1.Wanted:
		if fit && b.RevertedIntentId != "" {
			v.rolloutReverted(next, b.RevertedIntentId, f)
		}
	case *instancev1.Observed:
		if fit {
			v.judgeObservation(next, f)
			v.rolloutHealth(next, f)
		}
	case *instancev1.Unwanted, *instancev1.Gone:
		if fit && have != nil {
			v.rolloutUnwanted(have, f)
		}
	}
	return fit
}

// removed returns the part of a removed instance that an undo needs, or nil.
func removed(i *instancev1.Instance, f ledger.Fact) *instancev1.Instance {
	b, ok := f.Body.(*instancev1.Gone)
	if !ok || b.Lost || i.GetBefore().GetImage() == nil {
		return nil
	}
	return &instancev1.Instance{
		Id: i.Id, ServerId: i.ServerId, Agent: i.Agent, Generation: i.Generation, IntentId: i.IntentId,
		Before: i.Before,
	}
}

// setRemoved keeps the state before the last removal at a key; nil deletes it.
func (v *View) setRemoved(key string, next *instancev1.Instance, sequence uint64) {
	before := removedGroups(row(v.removed, key))
	if next == nil {
		v.removed.Forget(key)
	} else {
		v.removed.Put(key, next, sequence)
	}
	v.removedBy.Change(key, before, removedGroups(next))
}

// applyShown records what a task showed of its instance, as the fact observed would.
func applyShown(v *View, i *instancev1.Instance, t *taskv1.Task, f ledger.Fact) {
	generation := i.ObservedGeneration
	if !instance.ApplyShown(i, t, f.At) {
		return
	}
	intake.Observed(i, row(v.servers, i.ServerId), generation, f)
	v.judgeObservation(i, f)
	v.rolloutHealth(i, f)
}

// applyTask keeps an open task, and folds its state into the instance that it changes. The instance's
// sequence stays, because the fact is not on its key.
func (v *View) applyTask(f ledger.Fact) bool {
	switch f.Body.(type) {
	case *taskv1.Claimed:
		return true // it changes which dispatcher admits tasks, and no task
	case *taskv1.ReportedLate:
		return true // the task has ended; the server's own list shows what it has
	}
	have := row(v.tasks, f.Key)
	next, fit := task.Apply(have, f)
	if have == nil && fit {
		i := row(v.instances, ledger.Key(next.ServerId, next.Agent))
		if instance.Overtaken(f.Body, i.GetId(), i.GetGeneration()) {
			return false
		}
	}
	if !fit {
		return follow(v.tasks, f, next, false)
	}
	intake.Refresh(row(v.servers, next.ServerId), next)
	key := ledger.Key(next.ServerId, next.Agent)
	if i, ok := v.instances.Get(key); ok {
		before := fieldsOf(i)
		applyShown(v, i, next, f)
		instance.ApplyTask(i, next, f.At)
		if c, ok := f.Body.(*taskv1.Cancelled); ok && c.Withdrawn {
			instance.ApplyWithdrawal(i, next)
		}
		v.shared.instance(i)
		v.indexInstance(key, before, i)
		v.reviewInstance(i.ServerId, i)
	}
	if task.Ended(next.State) {
		v.judgeTask(next, row(v.instances, key), f)
		v.rolloutTask(next, f)
		next = nil
	}
	return follow(v.tasks, f, next, true)
}
