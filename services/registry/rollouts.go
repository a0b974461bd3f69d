package registry

import (
	"context"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

const (
	// rolloutsEvery is how often every rollout is looked at without a wake-up.
	rolloutsEvery = 5 * time.Second
	// rolloutsPause is the pause between two looks, so that the facts of many servers lead to one.
	rolloutsPause = 20 * time.Millisecond
	// mostRestored is how many broken servers one step takes back.
	mostRestored = 200
	// mostPast bounds the intents that are remembered because the view keeps them no longer.
	mostPast = 1000
)

// rolloutWork runs rollouts: it asks the engine (package rollout) what is next, and records it. It decides on the view
// rather than on facts, so a restart loses nothing, and every record is guarded, so two registries may both run it.
type rolloutWork struct {
	records *records
	lookup  *intentLookup
	log     zerolog.Logger
	wake    wakeup.Signal
	active  atomic.Bool // there is a rollout that may go on

	past map[string]*intentv1.Record // read from the ledger; only run uses it
}

func newRolloutWork(r *records, l *intentLookup, log zerolog.Logger) *rolloutWork {
	w := &rolloutWork{records: r, lookup: l, log: log, wake: wakeup.New(), past: map[string]*intentv1.Record{}}
	w.active.Store(true)
	return w
}

// noteFacts receives the facts that were just folded.
func (w *rolloutWork) noteFacts(facts []ledger.Fact) {
	for _, f := range facts {
		switch f.Noun {
		case ledger.Rollout:
			w.active.Store(true)
			w.wake.Wake()
			return
		case ledger.Intent, ledger.Task, ledger.Server, ledger.Instance:
			if w.active.Load() {
				w.wake.Wake()
				return
			}
		}
	}
}

// run runs rollouts until ctx is done.
func (w *rolloutWork) run(ctx context.Context) error {
	for {
		next := w.all(ctx)
		timer := time.NewTimer(max(rolloutsPause, min(rolloutsEvery, next)))
		select {
		case <-w.wake.C():
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if !sleep(ctx, rolloutsPause) {
			return nil
		}
	}
}

// all advances every rollout, and returns how long nothing happens without a fact.
func (w *rolloutWork) all(ctx context.Context) time.Duration {
	var ids []string
	w.records.follower.Read(func() {
		for _, r := range w.records.view.Rollouts() {
			if goesOn(r) {
				ids = append(ids, r.Id)
			}
		}
	})
	w.active.Store(len(ids) > 0)
	next := rolloutsEvery
	for _, id := range ids {
		for more := true; more && ctx.Err() == nil; {
			at, acted, err := w.step(ctx, id)
			if err != nil && ctx.Err() == nil {
				w.log.Warn().Err(err).Str("rollout", id).Msg("rollout put off")
			}
			if more = acted && err == nil; !at.IsZero() {
				next = min(next, at.Sub(w.records.now()))
			}
		}
	}
	return next
}

// goesOn reports whether the registry may have something to do for a rollout.
func goesOn(r *rolloutv1.Rollout) bool {
	owed := r.GetOwed().GetCounts()[uint32(rolloutv1.TargetState_TARGET_STATE_OWED)]
	broken := uint32(0)
	for _, wave := range r.Waves {
		owed += wave.Counts[uint32(rolloutv1.TargetState_TARGET_STATE_OWED)]
		broken += wave.Counts[uint32(rolloutv1.TargetState_TARGET_STATE_BROKEN)]
	}
	return !rollouts.Ended(r.State) || r.State != rolloutv1.State_STATE_UNDONE && owed+broken > 0
}

// step takes and records one decision about a rollout.
func (w *rolloutWork) step(ctx context.Context, id string) (next time.Time, acted bool, err error) {
	ask, err := w.askOf(ctx, id)
	if err != nil {
		return time.Time{}, false, err
	}
	var d rollout.Decision
	for {
		var missing []string
		_, err = w.records.decider.Do(ctx, func() ([]ledger.Draft, error) {
			var drafts []ledger.Draft
			d, drafts, missing = w.decide(id, ask)
			if acted = len(drafts) > 0; len(missing) > 0 {
				return nil, nil
			}
			return drafts, nil
		})
		if err != nil || len(missing) == 0 {
			break
		}
		if err = w.remember(ctx, missing); err != nil {
			return time.Time{}, false, err
		}
	}
	if err == nil && acted {
		w.logDecision(id, d)
	}
	return d.Next, acted, err
}

// decide returns what is next for a rollout, and the facts that record it; or the intents that must be read first. It
// must run inside Read.
func (w *rolloutWork) decide(
	id string, ask *intentv1.Rollout,
) (d rollout.Decision, drafts []ledger.Draft, missing []string) {
	view := w.records.view
	r, ok := view.Rollout(id)
	if !ok {
		return d, nil, nil
	}
	run := rolling.Run{Rollout: r, Ask: ask, At: w.records.now(), Past: func(id string) *intentv1.Record {
		if found, ok := view.Intent(id); ok {
			return found
		}
		if w.past[id] == nil {
			missing = append(missing, id)
		}
		return w.past[id]
	}}
	d = rollout.Decide(rolling.Input(view, r, run.At))
	switch {
	case len(d.Release) > 0:
		drafts, d.Release = rolling.Release(view, run, d.Wave, d.Release)
		drafts = append(drafts, w.fact(r, d, run.At)) // whose guard keeps all of them from being recorded after a pause
	case d.Acts():
		drafts = []ledger.Draft{w.fact(r, d, run.At)}
	default:
		drafts = rolling.Restore(view, run, w.unrestored(r))
	}
	return d, drafts, missing
}

// unrestored returns broken servers that are to be taken back: those of waves that passed, and all once the rollout
// does not run.
func (w *rolloutWork) unrestored(r *rolloutv1.Rollout) (out []*rolloutv1.Target) {
	if r.State == rolloutv1.State_STATE_UNDONE || r.Undoes != "" {
		return nil // what an undo takes away is not wanted again
	}
	for t := range w.records.view.Unrestored(r.Id) {
		wave := rollouts.Wave(r, t.Wave)
		if r.State == rolloutv1.State_STATE_RUNNING && wave.GetPassedAt() == nil {
			continue
		}
		if out = append(out, t); len(out) == mostRestored {
			break
		}
	}
	return out
}

// fact drafts the fact that records a decision which changes the rollout itself.
func (w *rolloutWork) fact(r *rolloutv1.Rollout, d rollout.Decision, at time.Time) ledger.Draft {
	basis := &rolloutv1.Basis{Sequence: w.records.follower.HeldPosition(), At: timestamppb.New(at)}
	var body proto.Message
	switch {
	case len(d.Release) > 0:
		body = &rolloutv1.Released{Wave: d.Wave, ServerIds: d.Release, Basis: basis}
	case d.Open > 0:
		body = &rolloutv1.Opened{Wave: d.Open, Basis: basis}
	case d.Pass > 0:
		body = &rolloutv1.Passed{Wave: d.Pass, Basis: basis}
	case d.Halt != nil:
		body = &rolloutv1.Halted{Wave: d.Wave, Reason: d.Halt, Basis: basis}
	case len(d.Silence) > 0:
		body = &rolloutv1.Silenced{ServerIds: d.Silence, Basis: basis}
	default:
		body = &rolloutv1.Succeeded{Owed: d.Owed, Basis: basis}
	}
	f := w.records.own(ledger.Rollout, r.Id, body, ledger.CausedByIntent(r.Id))
	f.At, f.Request = at, r.Id
	sequence := w.records.view.Sequence(ledger.Rollout, r.Id)
	f.ID = ident.From("rollout", r.Id, f.Name(), strconv.FormatUint(sequence, 10))
	return ledger.OnKey(f, sequence)
}

// askOf returns a rollout as it was published.
func (w *rolloutWork) askOf(ctx context.Context, id string) (*intentv1.Rollout, error) {
	if found := w.lookup.recent(id); found != nil {
		return found.GetIntent().GetRollout(), nil
	}
	if w.past[id] == nil {
		if err := w.remember(ctx, []string{id}); err != nil {
			return nil, err
		}
	}
	return w.past[id].GetIntent().GetRollout(), nil
}

// remember reads intents from the ledger.
func (w *rolloutWork) remember(ctx context.Context, ids []string) error {
	if len(w.past)+len(ids) > mostPast {
		clear(w.past)
	}
	for _, id := range ids {
		found, err := w.lookup.past(ctx, id)
		if err != nil {
			return err
		}
		w.past[id] = found
	}
	return nil
}

func (w *rolloutWork) logDecision(id string, d rollout.Decision) {
	e := w.log.Info().Str("rollout", id)
	switch {
	case len(d.Release) > 0:
		e.Uint32("wave", d.Wave).Int(logs.Count, len(d.Release)).Msg("rollout released servers")
	case d.Open > 0:
		e.Uint32("wave", d.Open).Msg("rollout opened a wave")
	case d.Pass > 0:
		e.Uint32("wave", d.Pass).Msg("rollout passed a wave")
	case d.Halt != nil:
		e.Str(logs.Code, d.Halt.Code).Str(logs.Reason, d.Halt.Message).Msg("rollout halted")
	case len(d.Silence) > 0:
		e.Int(logs.Count, len(d.Silence)).Msg("rollout counts silent servers as broken")
	case d.Succeed:
		e.Uint32("owed", d.Owed).Msg("rollout succeeded")
	default:
		e.Msg("rollout took broken servers back")
	}
}
