package steps

import (
	"context"
	"errors"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Commit stops the old version and makes the change final.
type Commit struct {
	Processes *agent.Processes
	Records   inventory.Keeper
}

// Do implements Step.
func (s Commit) Do(_ context.Context, r *Run) error {
	r.closeNotify()
	if r.From != nil && !r.SameImage() {
		if err := s.Processes.Stop(agent.Installed(r.From)); err != nil {
			return err
		}
	}
	r.Point("old gone")
	now := r.Installed(time.Now())
	if r.From != nil && supervise.Lives(r.From.Adopted) && r.SameImage() { // the same process went on
		now.Adopted = r.From.Adopted
	}
	if err := r.withRoom(func() error { return s.Records.Installed(now) }); err != nil {
		return err
	}
	r.Point("recorded")
	r.Committed = true
	err := r.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.PutChange(r.Record), tx.Replace(r.Agent, r.OldImage(), r.To, now.InstalledAt),
			tx.PutInstance(now))
	})
	r.Committed, r.justCommitted = err == nil, err == nil
	return inJournal(err)
}
