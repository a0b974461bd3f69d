// Package intents decides, plans, finds and withdraws intents.
package intents

import (
	"context"
	"strings"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/strict"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/signing"
)

// A decision with more changes than one atomic batch holds is recorded in parts of this size: small
// enough that a busy instance sets few others back. The writer gathers several parts into a batch.
const (
	partOfLarge = 100
	partsAtOnce = 16
)

// Handler decides published intents.
type Handler struct {
	records *records.Records
	lookup  *Lookup
	writer  *bus.Writer
	signer  signing.Tombstones
	log     zerolog.Logger
	lane    chan struct{} // takes one decision at a time: those that lost to another one
}

// New returns what decides intents.
func New(r *records.Records, l *Lookup, w *bus.Writer, signer signing.Tombstones, log zerolog.Logger) *Handler {
	return &Handler{records: r, lookup: l, writer: w, signer: signer, log: log, lane: make(chan struct{}, 1)}
}

// Handle decides an intent. It is safe to run twice: a decided intent is only acknowledged, and the
// guard of its key makes a second decision impossible. Only a subject without a way to answer is an
// error of kind Invalid; a body that cannot be read is refused in the ledger, where its publisher
// looks.
func (i *Handler) Handle(ctx context.Context, m bus.Message) error {
	at, err := topology.ParseIntentSubject(m.Subject)
	if err != nil {
		return err
	}
	ask := read(at, m)
	ask.Wrong, ask.Secrets = i.records.SealedWrong(ask.Intent), i.records.Secrets
	// Guards do not cover the servers that a decision passes over, so it must see at least what its
	// publisher could see: a removal after an installation finds every instance.
	if err := i.records.Decider.CatchUp(ctx); err != nil {
		return err
	}
	if err := i.afford(ctx, &ask); err != nil {
		return err
	}
	if ask.Undone, err = i.lookup.Undone(ctx, ask.Intent); err != nil {
		return err
	}
	if ask.Intent.GetRollout() != nil {
		return i.handleRollout(ctx, ask)
	}
	lost := false
	return i.records.Decider.Retry(ctx, func(ctx context.Context) error {
		attempt := i.attempt
		if lost {
			attempt = i.inTurn
		}
		err := attempt(ctx, ask)
		ask.Again, lost = true, true
		return err
	})
}

// afford has an intent refused whose user is over the budget of the ledger. The error is of kind Invalid when so many
// were refused that further refusals are not recorded.
func (i *Handler) afford(ctx context.Context, ask *intent.Ask) error {
	r := i.records
	return r.Decider.Query(ctx, func() error {
		limits := r.Limits
		if ask.Intent.GetUndo() != nil || ask.Intent.GetRollout().GetUndoOf() != "" {
			limits = limits.Urgent()
		}
		why := r.View.Writers.Refusal(limits, ask.Actor, ledger.Intent, 1, r.Now())
		if _, decided := r.View.Intent(ask.ID); why == nil || decided {
			return nil
		}
		if ask.Wrong = why; r.View.Writers.Beyond(limits, ask.Actor, r.Now()) {
			return fault.Refuse(fault.Invalid, why)
		}
		return nil
	})
}

// inTurn is attempt for an intent that lost to another decision. Many intents about the same servers, as after a stall
// of the bus, would all decide on the same state, and of each round one would hold: those that lose go one after the
// other.
func (i *Handler) inTurn(ctx context.Context, ask intent.Ask) error {
	select {
	case i.lane <- struct{}{}:
		defer func() { <-i.lane }()
	case <-ctx.Done():
		return fault.New(fault.Unavailable, "wait for a turn to decide: %w", ctx.Err())
	}
	if err := i.records.Decider.CatchUp(ctx); err != nil { // the one before recorded what this one depends on
		return err
	}
	return i.attempt(ctx, ask)
}

// attempt decides and records once. An error of kind Conflict means that part of the changes may be
// recorded and the answer is not; the next attempt records the rest.
func (i *Handler) attempt(ctx context.Context, ask intent.Ask) error {
	d, decided, err := i.decide(ctx, ask)
	if decided || err != nil {
		return err
	}
	if ask.Again || len(d.Drafts) > topology.MaxBatch {
		// The view keeps recent intents only, and the answer's guard does not stop the changes of a
		// large intent, which are recorded before it.
		if decided, err := i.lookup.decided(ctx, ask.ID); decided || err != nil {
			return err
		}
	}
	if err := i.record(ctx, d.Drafts); err != nil {
		return err
	}
	i.logDecision(ask, d)
	return nil
}

// read reads an intent. A body that cannot be read, or that holds a field or an enum value of a
// newer contract, becomes an intent that is refused, because it would be done in part only.
func read(at topology.IntentAddress, m bus.Message) intent.Ask {
	ask := intent.Ask{
		ID:    at.ID,
		Actor: at.Actor,
		Verb:  at.Verb,
		Trace: ledger.CheckTrace(m.Get(ledger.HeaderTrace)),
		Again: m.Delivered > 1,
	}
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

// decide decides on the view as it is. A refusal is final only on a view that is up to date: what
// the view lacks may have been recorded a moment ago.
func (i *Handler) decide(ctx context.Context, ask intent.Ask) (d intent.Decision, decided bool, err error) {
	view := i.records.View
	ask.At = i.records.Now()
	err = i.records.Decider.Query(ctx, func() error {
		if _, decided = view.Intent(ask.ID); decided {
			return nil
		}
		if d = intent.Decide(view, ask); d.Refusal != nil {
			return fault.Refuse(fault.Invalid, d.Refusal)
		}
		return i.signer.Sign(d.Drafts, func(id string) string {
			s, _ := view.Server(id)
			return s.GetCell()
		})
	})
	if d.Refusal != nil && fault.RefusalOf(err) == d.Refusal {
		err = nil // a refusal is an outcome
	}
	return d, decided, err
}

// record records a decision: in one atomic batch when it fits, otherwise the changes in parts and
// the answer after them.
func (i *Handler) record(ctx context.Context, drafts []ledger.Draft) error {
	if len(drafts) <= topology.MaxBatch {
		_, err := i.writer.Append(ctx, drafts...)
		return err
	}
	changes, answer := drafts[:len(drafts)-1], drafts[len(drafts)-1]
	var g errgroup.Group // without a context: the other parts are progress also after an error
	g.SetLimit(partsAtOnce)
	for start := 0; start < len(changes); start += partOfLarge {
		part := changes[start:min(start+partOfLarge, len(changes))]
		g.Go(func() error {
			_, err := i.writer.Append(ctx, part...)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	_, err := i.writer.Append(ctx, answer)
	return err
}

func (i *Handler) logDecision(ask intent.Ask, d intent.Decision) {
	e := i.log.Info().Str(logs.Intent, ask.ID).Str(logs.Actor, ask.Actor).Str("verb", ask.Verb)
	if d.Refusal != nil {
		e.Str(logs.Code, d.Refusal.Code).Str(logs.Reason, d.Refusal.Message).Msg("intent refused")
		return
	}
	e.Uint32(logs.Count, d.Changed).Msg("intent accepted")
}
