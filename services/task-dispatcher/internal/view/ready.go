package view

import (
	"github.com/tidwall/btree"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// candidate is a task that may be assigned when a slot is free.
type candidate struct {
	record  *dispatcherv1.TaskRecord
	opening *Opening // of a task that is still to be opened, whose record is in no table; else nil
}

// dueTask returns the candidate of a change that has no task yet.
func dueTask(i *dispatcherv1.InstanceRecord, o Opening) candidate {
	t, _ := task.Apply(nil, ledger.Fact{Noun: ledger.Task, Key: o.ID, Body: o.Body})
	return candidate{opening: &o, record: &dispatcherv1.TaskRecord{
		Task: t, Configuration: i.Configuration, QueuedSequence: i.DecidedSequence,
	}}
}

// behindAll is more than any sequence of the ledger.
const behindAll = 1 << 62

// place returns the place of a candidate among the others: what is fetched ahead comes after all changes.
func (c candidate) place() uint64 {
	if c.record.Task.Ahead != nil {
		return behindAll + c.record.QueuedSequence
	}
	return c.record.QueuedSequence
}

// readyTasks are the candidates, in the order in which they are assigned.
type readyTasks struct {
	btree.Map[uint64, candidate]                     // by place
	of                           map[string][]uint64 // by server, its places
}

func (r *readyTasks) add(c candidate) {
	server := c.record.Task.ServerId
	r.Set(c.place(), c)
	r.of[server] = append(r.of[server], c.place())
}

// drop removes the candidates of a server.
func (r *readyTasks) drop(server string) {
	for _, place := range r.of[server] {
		r.Delete(place)
	}
	delete(r.of, server)
}
