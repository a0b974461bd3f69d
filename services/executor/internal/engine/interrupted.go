package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

// countInterruptions counts, before anything is started, that the executor ended during the open changes. An executor
// on trial leaves that to the one that runs after it.
func (v recovery) countInterruptions(open []*change.Record) error {
	if len(open) == 0 || v.cfg.Trial {
		return nil
	}
	return v.cfg.Journal.Update(func(tx *journal.Tx) (err error) {
		for _, rec := range open {
			rec.Interrupt()
			err = errors.Join(err, tx.PutChange(rec))
		}
		return err
	})
}

// giveUp writes into the record of a change why it does not go on as it was, and lets what is installed run where the
// change ends at once.
func (v recovery) giveUp(ctx context.Context, r *steps.Run, next change.State) {
	const often = "the executor or its machine ended %d times during this change, last at step %s"
	times := r.Interruptions.Crashes + r.Interruptions.Others
	why := fault.Refusef(fault.Invalid, code.CrashedExecutor, often, times,
		strings.ToLower(strings.TrimPrefix(r.Step.String(), "STEP_")))
	switch {
	case r.Life().End(next):
		r.Log.Error().Err(why).Msg("files of an interrupted change not swept")
		_ = v.driver.steps.settle.Do(ctx, r) // it logs what fails
	case r.Failure == nil:
		v.driver.fail(r, why)
	case next == change.Broken:
		r.RollbackError = change.OneLine(why)
	}
}

// noteInterrupted begins the name under which the journal keeps how often an agent's change was interrupted that was
// dropped: the document brings it back, and its interruptions count on.
const noteInterrupted = "interrupted/"

type interrupted struct {
	ID            string               `json:"id"` // of the change
	Interruptions change.Interruptions `json:"interruptions"`
}

func keepInterruptions(tx *journal.Tx, rec *change.Record) error {
	data, err := json.Marshal(interrupted{rec.ID, rec.Interruptions})
	if err != nil {
		return err
	}
	return tx.SetNote(noteInterrupted+rec.Agent, string(data))
}

func recallInterruptions(tx *journal.Tx, rec *change.Record) {
	var of interrupted
	if json.Unmarshal([]byte(tx.Note(noteInterrupted+rec.Agent)), &of) == nil && of.ID == rec.ID {
		rec.Interruptions = of.Interruptions
	}
}

func forgetInterruptions(tx *journal.Tx, agent string) error {
	return tx.SetNote(noteInterrupted+agent, "")
}

// noteBad begins the name under which the journal keeps which version and configuration of an agent failed here. A
// document that still wants it, because its task ended otherwise for the dispatcher, does not bring it again; a task
// does.
const noteBad = "bad/"

// keepBad keeps that the version of a change failed here, or forgets the one before it that did.
func keepBad(tx *journal.Tx, r *change.Record) error {
	switch f := r.Failure; {
	case r.Removes() && f != nil:
		return nil
	case r.Removes() || f == nil:
		return tx.SetNote(noteBad+r.Agent, "")
	case !r.FailedByVersion():
		return nil
	}
	return tx.SetNote(noteBad+r.Agent, convergenceID(r.InstanceID, r.To.GetId(), r.ConfigurationDigest))
}
