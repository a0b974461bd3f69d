package executor

import (
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/fate"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// door is all that the link sees of the engine and its journal.
type door struct {
	journal *journal.Journal
	engine  *engine.Engine
	stands  func() standing
}

// Offer hands a document to the engine.
func (d *door) Offer(doc *desiredv1.Document) { d.engine.Offer(doc) }

// Waiting gives the oldest reports that were not acknowledged.
func (d *door) Waiting(n int) (out []link.Report, err error) {
	err = d.journal.Read(func(tx *journal.Tx) error {
		waiting, err := tx.Waiting(n)
		for _, p := range waiting {
			out = append(out, link.Report(p))
		}
		return err
	})
	return out, err
}

// Acknowledge takes a report out of the outbox.
func (d *door) Acknowledge(sequence uint64) error {
	return d.journal.Update(func(tx *journal.Tx) error { return tx.Acknowledge(sequence) })
}

// News is told when a report was added.
func (d *door) News() <-chan struct{} { return d.journal.Outbox() }

// Beat returns what a beat says.
func (d *door) Beat() (p link.Pulse, err error) {
	is := d.stands()
	p.State, p.Code, p.Reason = beatStates[is.verdict.Fate], is.verdict.Code, is.why()
	return p, d.journal.Read(func(tx *journal.Tx) error {
		p.Place, p.Outbox = tx.Place(), tx.OutboxLength()
		return nil
	})
}

var beatStates = map[fate.Fate]serverv1.ExecutorState{
	fate.Work:       serverv1.ExecutorState_EXECUTOR_STATE_RUNNING,
	fate.Quarantine: serverv1.ExecutorState_EXECUTOR_STATE_SUSPENDED,
	fate.Rest:       serverv1.ExecutorState_EXECUTOR_STATE_RESTING,
	fate.Uninstall:  serverv1.ExecutorState_EXECUTOR_STATE_UNINSTALLING,
}
