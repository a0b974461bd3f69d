package view

import (
	"cmp"

	"github.com/tidwall/btree"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// candidate is a task that may be assigned when a slot is free.
type candidate struct {
	place   uint64 // the sequence of the fact that led to it
	record  *dispatcherv1.TaskRecord
	opening *Opening // of a task that is still to be opened, whose record is in no table; else nil
}

// dueTask returns the candidate of a change that has no task yet.
func dueTask(i *dispatcherv1.InstanceRecord, o Opening) candidate {
	t, _ := task.Apply(nil, ledger.Fact{Noun: ledger.Task, Key: o.ID, Body: o.Body})
	record := &dispatcherv1.TaskRecord{Task: t, Configuration: i.Configuration}
	return candidate{place: o.Cause, opening: &o, record: record}
}

// queuedTask returns the candidate of a task that is queued; its instance is nil for a refresh. A change keeps the
// place that it had before.
func queuedTask(r *dispatcherv1.TaskRecord, i *dispatcherv1.InstanceRecord) candidate {
	c := candidate{place: r.QueuedSequence, record: r}
	if i != nil && r.Task.Attempt == 1 {
		c.place = i.DecidedSequence
	}
	return c
}

// sooner reports whether a is assigned before b: what is fetched ahead comes after all changes.
func sooner(a, b candidate) bool {
	ahead := func(c candidate) int {
		if c.record.Task.Ahead != nil {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(ahead(a), ahead(b)), cmp.Compare(a.place, b.place),
		cmp.Compare(a.record.Task.Id, b.record.Task.Id)) < 0
}

// readyTasks are the candidates, in the order in which they are assigned.
type readyTasks struct {
	*btree.BTreeG[candidate]
	of map[string][]candidate // by server
}

func newReadyTasks() *readyTasks {
	return &readyTasks{
		BTreeG: btree.NewBTreeGOptions(sooner, btree.Options{NoLocks: true}), of: map[string][]candidate{},
	}
}

func (r *readyTasks) add(c candidate) {
	server := c.record.Task.ServerId
	r.Set(c)
	r.of[server] = append(r.of[server], c)
}

// drop removes the candidates of a server.
func (r *readyTasks) drop(server string) {
	for _, c := range r.of[server] {
		r.Delete(c)
	}
	delete(r.of, server)
}
