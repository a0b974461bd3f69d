package view

import (
	"strings"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/task"
)

func (v *View) applyInstance(f ledger.Fact) bool {
	server, agent, ok := strings.Cut(f.Key, ".")
	if !ok {
		return false
	}
	i, known := v.instances.Get(f.Key)
	if known {
		v.instances.Touch(f.Key, f.Sequence)
	}
	switch b := f.Body.(type) {
	case *instancev1.Wanted:
		return v.wanted(f, i, &dispatcherv1.InstanceRecord{InstanceId: b.InstanceId, ServerId: server, Agent: agent}, b)
	case *instancev1.Unwanted:
		return v.unwanted(f, i, b)
	case *instancev1.Adopted:
		return v.adopted(f, i, &dispatcherv1.InstanceRecord{InstanceId: b.InstanceId, ServerId: server, Agent: agent}, b)
	case *instancev1.Gone:
		return v.gone(f, i, b)
	}
	return known // what was observed changes nothing here
}

func (v *View) wanted(f ledger.Fact, i, fresh *dispatcherv1.InstanceRecord, b *instancev1.Wanted) bool {
	waited := ""
	if i == nil {
		i = fresh
		v.instances.Put(f.Key, i, f.Sequence)
	} else if i.InstanceId != b.InstanceId || b.Generation <= i.Generation {
		return false
	} else {
		waited = v.awaited(i)
	}
	v.changeInstance(i, func() {
		i.Reconfigured = i.Wanted.GetId() == b.Image.GetId() && !proto.Equal(i.Configuration, b.Configuration)
		i.Generation, i.Wanted, i.Configuration, i.Unwanted = b.Generation, b.Image, b.Configuration, false
		i.IntentId, i.DecidedSequence = b.IntentId, f.Sequence
		wentBack(i, b.WithdrawnIntentId)
	})
	v.decidedBy(i, waited, b.WithdrawnIntentId, f.Sequence)
	return true
}

func (v *View) unwanted(f ledger.Fact, i *dispatcherv1.InstanceRecord, b *instancev1.Unwanted) bool {
	if i == nil || i.InstanceId != b.InstanceId || b.Generation <= i.Generation {
		return false
	}
	waited := v.awaited(i)
	v.changeInstance(i, func() {
		i.Generation, i.Wanted, i.Configuration, i.Unwanted, i.Reconfigured = b.Generation, nil, nil, true, false
		i.IntentId, i.DecidedSequence = b.IntentId, f.Sequence
		wentBack(i, b.WithdrawnIntentId)
	})
	v.decidedBy(i, waited, b.WithdrawnIntentId, f.Sequence)
	return true
}

// wentBack marks an instance that is wanted as before a change that was withdrawn: nothing must be done for it.
func wentBack(i *dispatcherv1.InstanceRecord, withdrawn string) {
	if withdrawn != "" {
		i.TaskGeneration, i.Reconfigured = i.Generation, false
	}
}

// decidedBy counts what was decided of an instance, and reviews its server's tasks.
func (v *View) decidedBy(i *dispatcherv1.InstanceRecord, waited, withdrawn string, sequence uint64) {
	if withdrawn != "" {
		v.passed(waited)
	} else {
		v.decided(i, waited, sequence)
	}
	v.reviewTasks(i.ServerId)
}

// adopted records an instance that is as it was found: nothing must be done for it.
func (v *View) adopted(f ledger.Fact, i, fresh *dispatcherv1.InstanceRecord, b *instancev1.Adopted) bool {
	if i != nil {
		return false
	}
	v.instances.Put(f.Key, fresh, f.Sequence)
	v.changeInstance(fresh, func() { fresh.Wanted, fresh.DecidedSequence = b.Image, f.Sequence })
	return true
}

func (v *View) gone(f ledger.Fact, i *dispatcherv1.InstanceRecord, b *instancev1.Gone) bool {
	if i == nil || i.InstanceId != b.InstanceId {
		return false
	}
	v.passed(v.awaited(i))
	v.unindexInstance(i)
	v.instances.Forget(f.Key)
	v.sweepImages()
	if i.Placed != nil || i.Removing {
		v.documentChanged(i.ServerId, f)
	}
	v.reviewTasks(i.ServerId)
	return true
}

// changeInstance changes a record and keeps what is derived from it.
func (v *View) changeInstance(i *dispatcherv1.InstanceRecord, change func()) {
	v.unindexInstance(i)
	change()
	v.indexInstance(i)
	v.reviewInstance(i)
	v.sweepImages()
}

// admitted places what a task brings about. What was placed when the task was queued may have
// been undone since, so the task's own record says what it is admitted upon.
func (v *View) admitted(i *dispatcherv1.InstanceRecord, id string, t *dispatcherv1.TaskRecord) {
	v.changeInstance(i, func() {
		before, configuration := task.From(i, t.Task.Generation)
		t.Task.From = before
		if before == nil && t.Task.To != nil {
			t.Task.Verb = taskv1.Verb_VERB_INSTALL
		}
		generation := i.PlacedGeneration
		if i.Unsettled && i.PlacedGeneration == t.Task.Generation {
			generation = i.BeforeGeneration
		}
		i.Before, i.BeforeConfiguration, i.BeforeGeneration = before, configuration, generation
		i.Placed, i.PlacedConfiguration, i.PlacedGeneration = t.Task.To, t.Configuration, t.Task.Generation
		i.Removing = t.Task.To == nil
		i.OpenTaskId, i.Unsettled = id, true
		a, _ := v.agents.Get(i.Agent)
		i.Tier, i.Dependencies = a.GetTier(), a.GetDependencies()
	})
}

// settled records how a task that was under way left its instance.
func (v *View) settled(i *dispatcherv1.InstanceRecord, how task.Fact) {
	v.changeInstance(i, func() {
		i.OpenTaskId = ""
		switch how {
		case task.HasExpired:
			return // the intent stands, and nobody knows how far it came
		case task.HasSucceeded:
			i.Removing = false
		case task.WasUndone:
			goBack(i)
			i.Removing = false
		case task.HasFailed:
			if i.Removing {
				return // a removal that failed stays asked for
			}
			goBack(i)
		}
		i.Before, i.BeforeConfiguration, i.BeforeGeneration, i.Unsettled = nil, nil, 0, false
	})
}

// goBack lets the entry stand again as it did before the change.
func goBack(i *dispatcherv1.InstanceRecord) {
	i.Placed, i.PlacedConfiguration, i.PlacedGeneration = i.Before, i.BeforeConfiguration, i.BeforeGeneration
}

func (v *View) indexInstance(i *dispatcherv1.InstanceRecord) {
	of := v.instanceOf[i.ServerId]
	if of == nil {
		of = map[string]*dispatcherv1.InstanceRecord{}
		v.instanceOf[i.ServerId] = of
	}
	of[i.Agent] = i
	for _, r := range []*imagev1.Ref{i.Wanted, i.Placed, i.Before} {
		if r != nil {
			v.imageUsers[r.Id]++
		}
	}
}

func (v *View) unindexInstance(i *dispatcherv1.InstanceRecord) {
	v.due.Delete(i.DecidedSequence)
	if of := v.instanceOf[i.ServerId]; of != nil {
		if delete(of, i.Agent); len(of) == 0 {
			delete(v.instanceOf, i.ServerId)
		}
	}
	for _, r := range []*imagev1.Ref{i.Wanted, i.Placed, i.Before} {
		if r == nil {
			continue
		}
		if v.imageUsers[r.Id]--; v.imageUsers[r.Id] == 0 {
			delete(v.imageUsers, r.Id)
			v.unused = append(v.unused, r.Id)
		}
	}
}

// reviewInstance keeps due.
func (v *View) reviewInstance(i *dispatcherv1.InstanceRecord) {
	s, _ := v.servers.Get(i.ServerId)
	if task.Due(i, s) > 0 {
		v.due.Set(i.DecidedSequence, ledger.Key(i.ServerId, i.Agent))
	} else {
		v.due.Delete(i.DecidedSequence)
	}
}

func (v *View) reviewInstances(server string) {
	for _, i := range v.instanceOf[server] {
		v.reviewInstance(i)
	}
}
