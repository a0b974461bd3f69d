// Package rollouts runs rollouts, answers requests about them, replays those of the past and forecasts.
package rollouts

import (
	"context"
	"slices"
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
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/intents"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
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
	// unseenGrace is how long after its start a registry counts no server as broken for want of a report.
	unseenGrace = time.Minute
)

// Work runs rollouts: it asks the engine (package rollout) what is next, and records it. It decides on the view
// rather than on facts, so a restart loses nothing, and every record is guarded, so two registries may both run it.
type Work struct {
	records  *records.Records
	lookup   *intents.Lookup
	presence Presence
	log      zerolog.Logger
	wake     wakeup.Signal
	active   atomic.Bool // there is a rollout that may go on
	started  time.Time   // when this registry began

	moved atomic.Uint64 // how many facts were folded that may bring a server to a rollout's selector

	// Only run uses what follows.
	past   map[string]*intentv1.Record // read from the ledger
	looked map[string]look             // by rollout
	joined int                         // how many servers the last decision lets join
	rested map[string]time.Time        // by rollout: until when no server is looked for that could fetch ahead
	// withdrew is when intents were withdrawn that the view does not keep.
	withdrew map[string]time.Time
}

// NewWork returns what runs rollouts.
func NewWork(r *records.Records, l *intents.Lookup, p Presence, log zerolog.Logger) *Work {
	w := &Work{records: r, lookup: l, presence: p, log: log, wake: wakeup.New()}
	w.past = map[string]*intentv1.Record{}
	w.looked, w.rested, w.withdrew = map[string]look{}, map[string]time.Time{}, map[string]time.Time{}
	w.moved.Store(1)
	w.active.Store(true)
	w.started = r.Now()
	return w
}

// NoteFacts receives the facts that were just folded.
func (w *Work) NoteFacts(facts []ledger.Fact) {
	wakes := false
	for _, f := range facts {
		switch f.Noun {
		case ledger.Rollout:
			w.active.Store(true)
			w.moved.Add(1)
			wakes = true
		case ledger.Intent, ledger.Server, ledger.Instance, ledger.Hold:
			w.moved.Add(1)
			wakes = wakes || w.active.Load()
		case ledger.Task, ledger.Environment:
			wakes = wakes || w.active.Load()
		}
	}
	if wakes {
		w.wake.Wake()
	}
}

// Run runs rollouts until ctx is done.
func (w *Work) Run(ctx context.Context) error {
	for {
		next := w.all(ctx)
		timer := time.NewTimer(max(rolloutsPause, min(rolloutsEvery, next)))
		select {
		case <-w.wake.C():
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if !records.Sleep(ctx, rolloutsPause) {
			return nil
		}
	}
}

// all advances every rollout, and returns how long nothing happens without a fact.
func (w *Work) all(ctx context.Context) time.Duration {
	var ids []string
	w.records.Follower.Read(func() {
		for _, r := range w.records.View.Rollouts() {
			if goesOn(r, w.records.View.CountUnrestored(r.Id)) || joins(r, w.records.Now()) ||
				len(w.released(r)) > 0 {
				ids = append(ids, r.Id)
			}
		}
	})
	w.active.Store(len(ids) > 0)
	w.forgetLooks(ids)
	next := rolloutsEvery
	for _, id := range ids {
		for more := true; more && ctx.Err() == nil; {
			at, acted, err := w.step(ctx, id)
			if err != nil && ctx.Err() == nil {
				w.log.Warn().Err(err).Str("rollout", id).Msg("rollout put off")
			}
			if more = acted && err == nil; !at.IsZero() {
				next = min(next, at.Sub(w.records.Now()))
			}
		}
	}
	return next
}

// goesOn reports whether the registry may have something to do for a rollout, with so many broken servers that were not
// taken back: one that ended has servers that it owes, that are under way, or that are to be taken back.
func goesOn(r *rolloutv1.Rollout, unrestored uint32) bool {
	open := unrestored
	for _, wave := range append(slices.Clone(r.Waves), r.Owed) {
		open += wave.GetCounts()[uint32(rolloutv1.TargetState_TARGET_STATE_OWED)]
		open += wave.GetCounts()[uint32(rolloutv1.TargetState_TARGET_STATE_REACHED)]
	}
	return !rollouts.Ended(r.State) || r.State != rolloutv1.State_STATE_UNDONE && open > 0
}

// step takes and records one decision about a rollout.
func (w *Work) step(ctx context.Context, id string) (next time.Time, acted bool, err error) {
	ask, err := w.askOf(ctx, id)
	if err != nil {
		return time.Time{}, false, err
	}
	var d rollout.Decision
	var drafts []ledger.Draft
	for {
		var missing []string
		_, err = w.records.Decider.Do(ctx, func() ([]ledger.Draft, error) {
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
		if w.joined > 0 {
			delete(w.looked, id) // there may be more
		}
		w.noteWithdrawn(drafts)
		w.logDecision(id, d)
	}
	return d.Next, acted, err
}

// decide returns what is next for a rollout, and the facts that record it; or the intents that must be read first. It
// must run inside Read.
func (w *Work) decide(
	id string, ask *intentv1.Intent,
) (d rollout.Decision, drafts []ledger.Draft, missing []string) {
	view := w.records.View
	r, ok := view.Rollout(id)
	if !ok {
		return d, nil, nil
	}
	past := func(id string) *intentv1.Record {
		if found, ok := view.Intent(id); ok {
			return found
		}
		if w.past[id] == nil {
			missing = append(missing, id)
		}
		return w.past[id]
	}
	run := rolling.Run{Rollout: r, Ask: ask.GetRollout(), Note: ask.GetNote(), At: w.records.Now(), Past: past}
	basis := w.basis(run.At)
	w.joined = 0
	in, rest := w.rests(id, rolling.Input(view, r, basis))
	d = rollout.Decide(in)
	rest(d)
	d = d.Hold(r, w.presence.held(r))
	switch {
	case len(d.Release) > 0:
		run.Under = rolling.Alone(view, r)
		drafts, d.Release = rolling.Release(view, run, d)
		drafts = append(drafts, w.fact(r, d, basis)) // whose guard keeps all of them from being recorded after a pause
	case len(d.Prime) > 0:
		drafts, d.Prime = rolling.Prime(view, run, d)
		drafts = append(drafts, w.fact(r, d, basis))
	case d.Acts():
		if d.Succeed {
			drafts = w.Join(run, true)
		}
		if len(drafts) == 0 {
			drafts = w.acted(r, d, basis)
		}
	default:
		if drafts = w.withdraw(r, run.At); len(drafts) > 0 {
			return d, drafts, nil
		}
		drafts = rolling.Restore(view, run, w.unrestored(r))
		if len(drafts) == 0 && len(missing) == 0 {
			drafts = w.Join(run, false)
		}
	}
	return d, drafts, missing
}

// basis returns what a decision rests on now. A registry that began a moment ago may not have recorded yet what came
// while no registry ran.
func (w *Work) basis(at time.Time) *rolloutv1.Basis {
	b := &rolloutv1.Basis{Sequence: w.records.Follower.HeldPosition(), At: timestamppb.New(at)}
	if until := w.started.Add(unseenGrace); at.Before(until) {
		b.UnseenUntil = timestamppb.New(until)
	}
	return b
}

// unrestored returns broken servers that are to be taken back: those of waves that passed, and all once the rollout
// does not run.
func (w *Work) unrestored(r *rolloutv1.Rollout) (out []*rolloutv1.Target) {
	paused, _ := rolling.Paused(w.records.View, w.records.Now())
	if r.State == rolloutv1.State_STATE_UNDONE || r.Undoes != "" || paused != "" {
		return nil // what an undo takes away is not wanted again, and a pause ends
	}
	for t := range w.records.View.Unrestored(r.Id) {
		wave := rollouts.Wave(r, t.Wave)
		if r.State == rolloutv1.State_STATE_RUNNING && wave.GetPassedAt() == nil {
			continue
		}
		if w.records.Now().Before(rollout.RestoreFrom(t)) || rolling.Reverts(w.records.View, t) {
			continue
		}
		if out = append(out, t); len(out) == mostRestored {
			break
		}
	}
	return out
}

// fact drafts the fact that records a decision which changes the rollout itself.
func (w *Work) fact(r *rolloutv1.Rollout, d rollout.Decision, basis *rolloutv1.Basis) ledger.Draft {
	var body proto.Message
	switch {
	case len(d.Release) > 0:
		body = &rolloutv1.Released{Wave: d.Wave, ServerIds: d.Release, Basis: basis, Step: d.Step}
	case len(d.Prime) > 0:
		body = &rolloutv1.Primed{ServerIds: d.Prime, Basis: basis}
	case d.Open > 0:
		body = &rolloutv1.Opened{Wave: d.Open, Basis: basis}
	case d.Pass > 0:
		body = &rolloutv1.Passed{Wave: d.Pass, Basis: basis}
	case d.Halt != nil:
		body = &rolloutv1.Halted{Wave: d.Wave, Reason: d.Halt, Basis: basis}
	case len(d.Silence) > 0:
		body = &rolloutv1.Silenced{ServerIds: d.Silence, Basis: basis}
	default:
		left := rollouts.InState(r, rolloutv1.TargetState_TARGET_STATE_LEFT_OUT)
		body = &rolloutv1.Succeeded{Owed: d.Owed, LeftOut: left, Basis: basis}
	}
	return w.draft(r, body, basis.At.AsTime())
}

// draft drafts a fact about a rollout.
func (w *Work) draft(r *rolloutv1.Rollout, body proto.Message, at time.Time) ledger.Draft {
	f := w.records.Own(ledger.Rollout, r.Id, body, ledger.CausedByIntent(r.Id))
	f.At, f.Request = at, r.Id
	sequence := w.records.View.Sequence(ledger.Rollout, r.Id)
	f.ID = ident.From("rollout", r.Id, f.Name(), strconv.FormatUint(sequence, 10))
	return ledger.OnKey(f, sequence)
}

// acted drafts a decision that changes the rollout itself; with its success, what the rollout ends with.
func (w *Work) acted(r *rolloutv1.Rollout, d rollout.Decision, basis *rolloutv1.Basis) []ledger.Draft {
	last := w.fact(r, d, basis)
	if !d.Succeed || r.ThenRecorded {
		return []ledger.Draft{last}
	}
	then, beside := rolling.Record(w.records.View, r)
	last.Body.(*rolloutv1.Succeeded).Then = then
	return append([]ledger.Draft{last}, rolling.Drafts(w.records.View, beside,
		func(environment string, body proto.Message, turn int) ledger.Fact {
			f := w.records.Own(ledger.Environment, environment, body, ledger.CausedByIntent(r.Id))
			f.At, f.Request, f.Actor = basis.At.AsTime(), r.Id, r.Actor // in the name of the person who asked for it
			f.ID = ident.From("rollout", r.Id, environment, f.Name(), strconv.Itoa(turn))
			return f
		})...)
}

// askOf returns a rollout as it was published.
func (w *Work) askOf(ctx context.Context, id string) (*intentv1.Intent, error) {
	if found := w.lookup.Recent(id); found != nil {
		return found.GetIntent(), nil
	}
	if w.past[id] == nil {
		if err := w.remember(ctx, []string{id}); err != nil {
			return nil, err
		}
	}
	return w.past[id].GetIntent(), nil
}

// remember reads intents from the ledger.
func (w *Work) remember(ctx context.Context, ids []string) error {
	if len(w.past)+len(ids) > mostPast {
		clear(w.past)
	}
	for _, id := range ids {
		found, err := w.lookup.Past(ctx, id)
		if err != nil {
			return err
		}
		w.past[id] = found
	}
	return nil
}

func (w *Work) logDecision(id string, d rollout.Decision) {
	e := w.log.Info().Str("rollout", id)
	switch {
	case w.joined > 0:
		e.Int(logs.Count, w.joined).Msg("servers joined rollout")
	case len(d.Release) > 0:
		e.Uint32("wave", d.Wave).Uint32("step", max(d.Step, 1)).Int(logs.Count, len(d.Release)).
			Msg("rollout released servers")
	case len(d.Prime) > 0:
		e.Int(logs.Count, len(d.Prime)).Msg("rollout has servers fetch ahead")
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
