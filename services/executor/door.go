package executor

import (
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// door is all that the link sees of the engine and its journal.
type door struct {
	journal *journal.Journal
	engine  *engine.Engine
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

// Beat gives what a beat says.
func (d *door) Beat() (generation uint64, outbox int, err error) {
	err = d.journal.Read(func(tx *journal.Tx) error {
		generation, outbox = tx.Applied(), tx.OutboxLength()
		return nil
	})
	return generation, outbox, err
}
