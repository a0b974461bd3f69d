package view

import (
	"github.com/tidwall/btree"

	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// KeepIntents is how many intents without pending changes stay counted.
const KeepIntents = 10_000

// position orders intents by the fact that ended them; one fact may end several.
type position struct {
	sequence uint64
	intent   string
}

func before(a, b position) bool {
	return a.sequence < b.sequence || (a.sequence == b.sequence && a.intent < b.intent)
}

// counts counts the changes of each intent by state.
type counts struct {
	table   *fold.Table[*dispatcherv1.ProgressRecord] // by intent
	keep    int                                       // how many ended intents stay counted
	ended   *btree.BTreeG[position]                   // intents without pending changes
	changed []string                                  // intents whose counts the present fact changed
}

// load rebuilds the index from the table.
func (c *counts) load() {
	c.ended = btree.NewBTreeGOptions(before, btree.Options{NoLocks: true})
	for intent, r := range c.table.All() {
		if r.EndedSequence > 0 {
			c.ended.Set(position{r.EndedSequence, intent})
		}
	}
}

// count changes the counts of an intent, if it is counted.
func (c *counts) count(intent string, change func(*dispatcherv1.IntentCounts)) {
	if r, ok := c.table.Get(intent); ok {
		change(r.Counts)
		c.changed = append(c.changed, intent)
	}
}

// begin starts to count an intent.
func (c *counts) begin(intent string, sequence uint64) *dispatcherv1.ProgressRecord {
	r, ok := c.table.Get(intent)
	if !ok {
		r = &dispatcherv1.ProgressRecord{Counts: &dispatcherv1.IntentCounts{}}
		c.table.Put(intent, r, sequence)
	}
	c.changed = append(c.changed, intent)
	return r
}

// decided counts a change that an intent decided. waited is the intent for which the instance needed a
// task until then.
func (c *counts) decided(intent string, awaits bool, waited string, sequence uint64) {
	c.passed(waited)
	if intent == "" {
		return
	}
	n := c.begin(intent, sequence).Counts
	if awaits {
		n.ToOpen++
	} else {
		n.NeverOpened++
	}
}

// passed counts a change that needed a task and will never get one.
func (c *counts) passed(intent string) {
	c.count(intent, func(n *dispatcherv1.IntentCounts) { decrement(&n.ToOpen); n.NeverOpened++ })
}

// opened counts a task that was queued; i is its instance before, nil when that is gone.
func (c *counts) opened(q *taskv1.Queued, waited bool, i *dispatcherv1.InstanceRecord) {
	c.count(q.IntentId, func(n *dispatcherv1.IntentCounts) {
		switch {
		case q.Attempt > 1: // it takes the place of the try before it
			last := taskv1.State_STATE_EXPIRED
			if i.GetTaskGeneration() == q.Generation {
				last = i.GetTaskState()
			}
			decrement(counterOf(n, last))
		case waited:
			decrement(&n.ToOpen)
		default:
			decrement(&n.NeverOpened)
		}
		n.Queued++
	})
}

// moved moves a task from one state to another.
func (c *counts) moved(intent string, from, to taskv1.State) {
	c.count(intent, func(n *dispatcherv1.IntentCounts) { decrement(counterOf(n, from)); *counterOf(n, to)++ })
}

// accepted records that an intent is decided.
func (c *counts) accepted(f ledger.Fact, a *intentv1.Accepted) {
	if !a.GetIntent().GetDryRun() && a.Changed > 0 {
		c.begin(f.Key, f.Sequence).AcceptedSequence = f.Sequence
	}
}

// settle records which of the intents that a fact changed have ended, and forgets the oldest.
func (c *counts) settle(sequence uint64) {
	for _, intent := range c.changed {
		r, ok := c.table.Get(intent)
		if !ok {
			continue
		}
		switch open := Pending(r.Counts) > 0; {
		case open && r.EndedSequence > 0:
			c.ended.Delete(position{r.EndedSequence, intent})
			r.EndedSequence = 0
		case !open && r.EndedSequence == 0:
			r.EndedSequence = sequence
			c.ended.Set(position{sequence, intent})
		}
	}
	c.changed = c.changed[:0]
	for c.ended.Len() > c.keep {
		oldest, _ := c.ended.PopMin()
		c.table.Forget(oldest.intent)
	}
}

// Pending returns how many changes have not ended.
func Pending(c *dispatcherv1.IntentCounts) uint32 {
	return c.GetToOpen() + c.GetQueued() + c.GetAssigned() + c.GetRunning()
}

// Changes returns how many changes are counted.
func Changes(c *dispatcherv1.IntentCounts) uint32 {
	return Pending(c) + c.GetSucceeded() + c.GetUndone() + c.GetFailed() + c.GetCancelled() + c.GetExpired() +
		c.GetSuperseded() + c.GetNeverOpened()
}

// decrement subtracts one, but not from zero.
func decrement(n *uint32) {
	if *n > 0 {
		*n--
	}
}

// counterOf returns the counter of a task's state.
func counterOf(c *dispatcherv1.IntentCounts, s taskv1.State) *uint32 {
	switch s {
	case taskv1.State_STATE_QUEUED:
		return &c.Queued
	case taskv1.State_STATE_ASSIGNED:
		return &c.Assigned
	case taskv1.State_STATE_RUNNING:
		return &c.Running
	case taskv1.State_STATE_SUCCEEDED:
		return &c.Succeeded
	case taskv1.State_STATE_UNDONE:
		return &c.Undone
	case taskv1.State_STATE_FAILED:
		return &c.Failed
	case taskv1.State_STATE_CANCELLED:
		return &c.Cancelled
	case taskv1.State_STATE_SUPERSEDED:
		return &c.Superseded
	}
	return &c.Expired
}
