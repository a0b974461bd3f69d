package view

import (
	"strings"

	"google.golang.org/protobuf/proto"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
)

func (v *View) applyInstance(f ledger.Fact) bool {
	server, agent, ok := strings.Cut(f.Key, ".")
	if !ok {
		return false
	}
	i, known := v.instances.table.Get(f.Key)
	if known {
		v.instances.table.Touch(f.Key, f.Sequence)
	}
	if !instance.Fits(i.GetInstanceId(), i.GetGeneration(), f.Body) {
		return false
	}
	switch b := f.Body.(type) {
	case *instancev1.Wanted:
		waited := v.Rows.awaited(i)
		if !known {
			i = &dispatcherv1.InstanceRecord{InstanceId: b.InstanceId, ServerId: server, Agent: agent}
			v.instances.table.Put(f.Key, i, f.Sequence)
		}
		v.wanted(f, i, b, waited)
	case *instancev1.Unwanted:
		v.unwanted(f, i, b)
	case *instancev1.Gone:
		v.gone(f, i)
	case *instancev1.Observed:
		v.keeps.observed(i, b)
	}
	return true // an adoption changes nothing here
}

func (v *View) wanted(f ledger.Fact, i *dispatcherv1.InstanceRecord, b *instancev1.Wanted, waited string) {
	v.instances.change(i, func() {
		i.Reconfigured = i.Wanted.GetId() == b.Image.GetId() && !proto.Equal(i.Configuration, b.Configuration)
		i.Generation, i.Wanted, i.Configuration, i.Unwanted = b.Generation, b.Image, b.Configuration, false
		i.IntentId, i.DecidedSequence = b.IntentId, f.Sequence
		i.AdoptCandidate, i.Release, i.Again = b.AdoptCandidate, false, b.Again
		restored(i, b.RevertedIntentId)
	})
	v.decidedBy(i, waited, b.RevertedIntentId, f.Sequence)
	v.Rows.notWaitedFor(f, i.OpenTaskId)
}

func (v *View) unwanted(f ledger.Fact, i *dispatcherv1.InstanceRecord, b *instancev1.Unwanted) {
	waited := v.Rows.awaited(i)
	v.instances.change(i, func() {
		i.Generation, i.Wanted, i.Configuration, i.Unwanted, i.Reconfigured = b.Generation, nil, nil, true, false
		i.IntentId, i.DecidedSequence, i.Release = b.IntentId, f.Sequence, b.Release
		restored(i, b.RevertedIntentId)
	})
	v.decidedBy(i, waited, b.RevertedIntentId, f.Sequence)
	v.Rows.notWaitedFor(f, i.OpenTaskId)
}

// restored marks an instance that is wanted as before a withdrawn change: it needs no task.
func restored(i *dispatcherv1.InstanceRecord, withdrawn string) {
	if withdrawn != "" {
		i.TaskGeneration, i.Reconfigured = i.Generation, false
	}
}

// decidedBy counts a decision about an instance, and reviews its server's tasks.
func (v *View) decidedBy(i *dispatcherv1.InstanceRecord, waited, withdrawn string, sequence uint64) {
	if withdrawn != "" {
		v.counts.passed(waited)
	} else {
		v.counts.decided(i.IntentId, v.Rows.awaited(i) != "", waited, sequence)
	}
	v.Queue.review(i.ServerId)
}

func (v *View) gone(f ledger.Fact, i *dispatcherv1.InstanceRecord) {
	v.counts.passed(v.Rows.awaited(i))
	v.instances.unindex(i)
	v.instances.table.Forget(f.Key)
	v.images.sweep()
	if i.Placed != nil || i.Removing {
		v.documents.changed(i.ServerId, f)
	}
	v.Queue.review(i.ServerId)
}
