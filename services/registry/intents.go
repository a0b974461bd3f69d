package registry

import (
	"context"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// Decisions with more changes than one atomic unit holds are recorded in units of this
// many: few enough that a busy instance sets back few others, and the writer gathers
// several into one batch anyway.
const (
	partOfLarge  = 100
	partsAtOnce  = 16
	triesOfLarge = 40
)

// handleIntent decides an intent. It is safe to run twice: an intent that is decided is
// only acknowledged, and the guard of its key makes a second decision impossible. Only
// a subject that cannot be answered to is an error of kind Invalid; a body that cannot
// be read is refused in the ledger, where its publisher looks.
func (r *Registry) handleIntent(ctx context.Context, m bus.Message) error {
	at, err := topology.ParseIntentSubject(m.Subject)
	if err != nil {
		return err
	}
	ask := read(at, m)
	// Guards do not span what a decision passes over, so it must see at least what its
	// publisher could: a removal after an installation finds every instance.
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	if ask.Undone, err = r.undone(ctx, ask.Intent); err != nil {
		return err
	}
	var conflict error
	for n, left := 0, tries; left > 0; n, left = n+1, left-1 {
		d, decided, err := r.decide(ctx, ask)
		if decided || err != nil {
			return err
		}
		if n == 0 && len(d.Drafts) > topology.MaxBatch {
			// Its answer comes last, so the answer's guard would stop nothing.
			if answered, err := r.answered(ctx, at.ID); answered || err != nil {
				return err
			}
			left = triesOfLarge // each try records a part of it
		}
		if conflict = r.record(ctx, d.Drafts); conflict == nil {
			r.logDecision(ask, d)
			return nil
		}
		if !fault.Is(conflict, fault.Conflict) {
			return conflict
		}
		if answered, e := r.answered(ctx, at.ID); answered || e != nil {
			return e
		}
		if e := r.catchUp(ctx); e != nil {
			return e
		}
		ask.Again = true
	}
	return conflict
}

// undone finds the intent that an undo is about; nil when it is none, or is not known. The
// view must be up to date: a read of the ledger alone may miss an intent of a moment ago.
func (r *Registry) undone(ctx context.Context, i *intentv1.Intent) (*intentv1.Record, error) {
	id := i.GetUndo().GetIntentId()
	if !ident.IsUUID(id) {
		return nil, nil
	}
	if recent := r.recentIntent(id); recent != nil {
		return recent, nil
	}
	past, err := r.pastIntent(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return past, err
}

// read reads an intent. What cannot be read, or holds a field or an enum value of a newer
// contract, becomes an intent that will be refused: it would be done in part only.
func read(at topology.IntentAddress, m bus.Message) intent.Ask {
	ask := intent.Ask{ID: at.ID, Actor: at.Actor, Verb: at.Verb, Trace: m.Get(ledger.HeaderTrace), Again: m.Delivered > 1}
	body := &intentv1.Intent{}
	if err := bus.Unmarshal(m, body); err != nil {
		ask.Unreadable = strings.ToValidUTF8(err.Error(), "?") // it may quote the body
		ask.Unreadable += "; this registry is version " + version.Version
		return ask
	}
	if err := strict.Check(body); err != nil {
		ask.Unknown = err.Error() + "; this registry is version " + version.Version
		return ask
	}
	ask.Intent = body
	return ask
}

// decide decides on the view as it is. A refusal is only believed on a view that is up
// to date once more: what it misses may have been recorded a moment ago.
func (r *Registry) decide(ctx context.Context, ask intent.Ask) (d intent.Decision, decided bool, err error) {
	ask.At = r.Now()
	err = r.look(ctx, func() error {
		if _, decided = r.view.Intent(ask.ID); decided {
			return nil
		}
		if d = intent.Decide(r.view, ask); d.Refusal != nil {
			return fault.Refuse(fault.Invalid, d.Refusal)
		}
		return r.signDeaths(d.Drafts, func(id string) string {
			s, _ := r.view.Server(id)
			return s.GetCell()
		})
	})
	if d.Refusal != nil && fault.RefusalOf(err) == d.Refusal {
		err = nil // a refusal is an outcome
	}
	return d, decided, err
}

// record records a decision: in one atomic unit when it fits, otherwise the changes
// first, in several, and the answer behind them. An error of kind Conflict means that
// part of the changes may be recorded and the answer is not.
func (r *Registry) record(ctx context.Context, drafts []ledger.Draft) error {
	if len(drafts) <= topology.MaxBatch {
		_, err := r.writer.Append(ctx, drafts...)
		return err
	}
	changes, answer := drafts[:len(drafts)-1], drafts[len(drafts)-1]
	var g errgroup.Group // not one that stops at the first error: the other parts are progress
	g.SetLimit(partsAtOnce)
	for start := 0; start < len(changes); start += partOfLarge {
		part := changes[start:min(start+partOfLarge, len(changes))]
		g.Go(func() error {
			_, err := r.writer.Append(ctx, part...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err := r.writer.Append(ctx, answer)
	return err
}

// answered looks in the ledger itself whether an intent is decided: the view only knows recent ones.
func (r *Registry) answered(ctx context.Context, id string) (bool, error) {
	_, err := r.pastIntent(ctx, id)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	return err == nil, err
}

func (r *Registry) logDecision(ask intent.Ask, d intent.Decision) {
	e := r.Log.Info().Str(logs.Intent, ask.ID).Str(logs.Actor, ask.Actor).Str("verb", ask.Verb)
	if d.Refusal != nil {
		e.Str(logs.Code, d.Refusal.Code).Str(logs.Reason, d.Refusal.Message).Msg("intent refused")
		return
	}
	e.Uint32(logs.Count, d.Changed).Msg("intent accepted")
}
