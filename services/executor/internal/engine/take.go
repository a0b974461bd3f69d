package engine

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// newer reports whether a document is to be looked at rather than another one.
func newer(d, other *desiredv1.Document) bool {
	a, b := lineage.Of(d), lineage.Of(other)
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Generation > b.Generation
}

// take makes a document the one to converge to, unless it does not continue the history of the one taken before, or is
// not to be believed.
func (e *Engine) take(ctx context.Context, d *desiredv1.Document) error {
	if e.cfg.Trial {
		return nil // whoever runs after the trial takes it
	}
	var have lineage.Place
	var verdict lineage.Verdict
	passed := false
	err := e.cfg.Journal.Update(func(tx *journal.Tx) error {
		have = tx.Place()
		verdict = lineage.Judge(have, d)
		passed = lineage.Codes[verdict] != "" || !e.cfg.Believe(d)
		if is := lineage.Of(d); !passed && is != have {
			return errors.Join(tx.SetPlace(is), e.enterEpoch(tx, have, is))
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.notTaken(have, d, verdict); err != nil || passed {
		return err
	}
	if !proto.Equal(d, e.document) {
		e.cfg.Log.Info().Uint64("generation", d.GetGeneration()).Int("count", len(d.GetEntries())).Msg("document taken")
	}
	e.document = d
	if err := e.sweepUnasked(); err != nil {
		e.cfg.Log.Warn().Err(err).Msg("images not swept")
	}
	if err := errors.Join(e.refuseRequests(), e.repeatEnds()); err != nil {
		return err
	}
	return e.converge(ctx)
}

// enterEpoch forgets what was done for the epoch before: what the ledger wants now was decided without knowing of it.
func (e *Engine) enterEpoch(tx *journal.Tx, from, to lineage.Place) error {
	if from.Generation == 0 || max(from.Epoch, 1) == to.Epoch {
		return nil
	}
	e.cfg.Log.Warn().Uint64("from", max(from.Epoch, 1)).Uint64("to", to.Epoch).
		Msg("an operator accepted that the ledger lost part of this server's history")
	clear(e.tried)
	return tx.ForgetEnded()
}

// notTaken shows that a document was not taken, once it is certain that it is the ledger's last word; and that this is
// over.
func (e *Engine) notTaken(have lineage.Place, d *desiredv1.Document, v lineage.Verdict) error {
	stands := e.patience.Hear(v, time.Now())
	switch {
	case lineage.Codes[v] == "":
		if e.shown != v {
			e.cfg.Log.Info().Uint64("generation", d.GetGeneration()).Msg("documents are taken again")
		}
		v = lineage.Same
	case !stands:
		time.AfterFunc(lineage.ReadAgainAfter, e.cfg.ReadAgain)
		return nil
	}
	if e.shown == v {
		return nil
	}
	e.shown = v
	e.cfg.NotTaken(v)
	if v == lineage.Same {
		return nil
	}
	e.cfg.Log.Warn().Str(logs.Code, lineage.Codes[v]).Uint64("applied", have.Generation).Uint64("generation", d.GetGeneration()).
		Msg("document not taken: the ledger it is made from may not hold the one that was applied last; agents are kept")
	return e.sayAgents("", true) // what the server has is news to that ledger
}
