package engine

import (
	"errors"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// reset deletes what this executor kept of agents, once the document of a server that is being reinstalled lists
// nothing and nothing is left of its agents. It is safe to repeat: after a crash the next convergence does it again,
// until the journal has the note that the beats carry.
func (e *Engine) reset() error {
	id := e.document.GetResetId()
	if id == "" || len(e.document.GetEntries())+len(e.document.GetRemovals()) > 0 || len(e.busy) > 0 {
		return nil
	}
	empty, done, err := e.emptied(id)
	if err != nil || !empty || done {
		return err
	}
	switch left, err := e.emptyTrash(); {
	case err != nil:
		return err
	case left > 0:
		e.cfg.Log.Warn().Int("count", left).Msg("server not empty yet: files of removed agents are left")
		return nil // the next check tries again
	}
	e.cfg.FailPoint("reset trash")
	err = e.rooms.images.GiveUpAll()
	e.cfg.FailPoint("reset kept")
	if err = errors.Join(err, e.rooms.images.SweepUnasked(e.document)); err != nil {
		e.cfg.Log.Warn().Err(err).Msg("server not empty yet: images are left")
		return nil // the next check tries again
	}
	e.cfg.FailPoint("reset swept")
	if err := e.cfg.Journal.SetNote(journal.NoteEmptied, id); err != nil {
		return err
	}
	e.cfg.FailPoint("reset noted")
	e.cfg.Log.Info().Str(logs.Intent, id).Msg("server empty for its reinstall")
	return e.reports.sayAgents("", true)
}

// emptied reports whether nothing is left in an inventory that is trusted, and whether the reset was noted.
func (e *Engine) emptied(id string) (empty, done bool, err error) {
	doubt, err := e.doubts.why()
	if err != nil || doubt != "" {
		return false, false, err
	}
	err = e.cfg.Journal.Read(func(tx *journal.Tx) error {
		in, err := tx.Inventory()
		empty, done = len(in.Instances)+len(in.Changes) == 0, tx.Note(journal.NoteEmptied) == id
		return err
	})
	return empty, done, err
}

// endReset forgets that the server was emptied when a document ends the reinstall, or brings an agent.
func endReset(tx *journal.Tx, d *desiredv1.Document) error {
	if tx.Note(journal.NoteEmptied) == d.GetResetId() && len(d.GetEntries()) == 0 {
		return nil
	}
	return tx.SetNote(journal.NoteEmptied, "")
}
