package engine

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// newer reports whether a document comes after another one.
func newer(d, other *desiredv1.Document) bool {
	a, b := lineage.Of(d), lineage.Of(other)
	return a.Epoch > b.Epoch || a.Epoch == b.Epoch && a.Generation > b.Generation
}

// Offer hands over a document. It never blocks; an older document that waits is replaced. The
// server's death takes effect at once, also while Run still finishes interrupted changes.
func (e *Engine) Offer(d *desiredv1.Document) {
	e.handleDeath(d)
	e.heard.offer(d)
	for {
		select {
		case e.offers <- d:
			return
		default:
		}
		select {
		case waiting := <-e.offers:
			if newer(waiting, d) {
				d = waiting
			}
		default:
		}
	}
}

// take makes a document the one to converge to, unless it does not continue the history of the
// one before, or is not to be believed.
func (e *Engine) take(ctx context.Context, d *desiredv1.Document) error {
	if e.cfg.Trial {
		return nil // the engine that runs after the trial takes it
	}
	var have lineage.Position
	var relation lineage.Relation
	passed := false
	err := e.cfg.Journal.Update(func(tx *journal.Tx) error {
		have = tx.Position()
		relation = lineage.Compare(have, d)
		passed = lineage.Codes[relation] != "" || !e.cfg.Believe(d)
		if passed {
			return nil
		}
		if is := lineage.Of(d); is != have {
			return errors.Join(tx.SetPosition(is), e.enterEpoch(tx, have, is), endReset(tx, d), e.setPolicy(tx, d))
		}
		return e.setPolicy(tx, d)
	})
	if err != nil {
		return err
	}
	if err := e.showNotTaken(have, d, relation); err != nil || passed {
		return err
	}
	if !proto.Equal(d, e.document) {
		e.cfg.Log.Info().Uint64("generation", d.GetGeneration()).Int("count", len(d.GetEntries())).Msg("document taken")
	}
	e.document = d
	e.rooms.deferrals.take(d)
	if err := e.rooms.images.SweepUnasked(d); err != nil {
		e.cfg.Log.Warn().Err(err).Msg("images not swept")
	}
	if err := e.tasks.answer(d); err != nil {
		return err
	}
	return e.converge(ctx)
}

// enterEpoch forgets what was done for the epoch before: the new ledger decided without it.
func (e *Engine) enterEpoch(tx *journal.Tx, from, to lineage.Position) error {
	if from.Generation == 0 || max(from.Epoch, 1) == to.Epoch {
		return nil
	}
	e.cfg.Log.Warn().Uint64("from", max(from.Epoch, 1)).Uint64("to", to.Epoch).
		Msg("an operator accepted that the ledger lost part of this server's history")
	e.rooms.repairs.Forget()
	return errors.Join(tx.ForgetEnded(), tx.ForgetNotes(noteBad))
}

// showNotTaken shows that documents are not taken, once that is certainly the ledger's last
// word, and that they are taken again.
func (e *Engine) showNotTaken(have lineage.Position, d *desiredv1.Document, v lineage.Relation) error {
	stands := e.patience.Observe(v, time.Now())
	switch {
	case lineage.Codes[v] == "":
		if e.shown != v {
			e.cfg.Log.Info().Uint64("generation", d.GetGeneration()).Msg("documents accepted again")
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
	e.cfg.Log.Warn().
		Str(logs.Code, lineage.Codes[v]).
		Uint64("applied", have.Generation).
		Uint64("generation", d.GetGeneration()).
		Msg("document not taken: it does not continue the history of the one that was applied last; agents are kept")
	return e.reports.sayAgents("", true) // what the server has is news to that ledger
}

// dead reports whether the document says that the server is dead.
func (e *Engine) dead() bool { return e.document.GetLife() == serverv1.Life_LIFE_DEAD }

// handleDeath ends the server's life when a document says so that will be taken: whatever is
// being brought is given up then. Death is final, so it may take effect before the document
// is taken.
func (e *Engine) handleDeath(d *desiredv1.Document) {
	if d.GetLife() != serverv1.Life_LIFE_DEAD || e.cfg.Trial {
		return
	}
	older := true // also when that cannot be read: take finds out
	_ = e.cfg.Journal.Read(func(tx *journal.Tx) error {
		older = lineage.Codes[lineage.Compare(tx.Position(), d)] != ""
		return nil
	})
	if !older && e.cfg.Believe(d) {
		e.life.End()
	}
}
