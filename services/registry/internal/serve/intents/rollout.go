package intents

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
)

// handleRollout decides an intent with the verb rollout. It is safe to run twice: a rollout whose plan was recorded in
// part only is aborted, and its intent refused.
func (i *Handler) handleRollout(ctx context.Context, ask intent.Ask) error {
	return i.records.Decider.Retry(ctx, func(ctx context.Context) error {
		var d rolling.Decision
		decided := false
		ask.At = i.records.Now()
		err := i.records.Decider.Query(ctx, func() error {
			if _, decided = i.records.View.Intent(ask.ID); decided {
				return nil
			}
			if other := i.records.View.Recording(ask.ID); other != "" {
				return fault.New(fault.Conflict, "the plan of rollout %s is being recorded", other)
			}
			if d = rolling.Decide(i.records.View, ask); d.Refusal != nil {
				return fault.Refuse(fault.Invalid, d.Refusal)
			}
			return nil
		})
		if err != nil && (d.Refusal == nil || fault.RefusalOf(err) != d.Refusal) {
			return err
		}
		if decided {
			return nil
		}
		if decided, err = i.lookup.decided(ctx, ask.ID); decided || err != nil {
			return err
		}
		if paused, err := i.pauseUndone(ctx, ask, d); err != nil {
			return err
		} else if paused {
			return fault.New(fault.Conflict, "rollout %s was paused: its undo is planned again", d.Undoes)
		}
		if err := i.RecordRollout(ctx, d); err != nil {
			return err
		}
		i.logDecision(ask, intent.Decision{Changed: d.Changed, Refusal: d.Refusal})
		return nil
	})
}

// pauseUndone pauses a running rollout whose undo is recorded in parts, and reports whether it did: what it does
// between them would make the plan of its undo stale.
func (i *Handler) pauseUndone(ctx context.Context, ask intent.Ask, d rolling.Decision) (bool, error) {
	if d.Undoes == "" || len(d.Parts) < 2 {
		return false, nil
	}
	r := i.records
	sequence, err := r.Decider.Do(ctx, func() ([]ledger.Draft, error) {
		if past, _ := r.View.Rollout(d.Undoes); past.GetState() != rolloutv1.State_STATE_RUNNING {
			return nil, nil
		}
		last := r.View.Sequence(ledger.Rollout, d.Undoes)
		body := &rolloutv1.Paused{Reason: "rollout " + ask.ID + " undoes it"}
		return []ledger.Draft{ledger.OnKey(intent.Fact(ask, ledger.Rollout, d.Undoes, body, last), last)}, nil
	})
	return sequence > 0, err
}

// RecordRollout records the parts of a plan, each after the one before, and the answer with the last.
func (i *Handler) RecordRollout(ctx context.Context, d rolling.Decision) error {
	var sequence uint64
	for n, part := range d.Parts {
		drafts := []ledger.Draft{ledger.OnKey(part, sequence)}
		if n == 0 {
			drafts[0].Guard = d.Guard
		}
		if n == len(d.Parts)-1 {
			drafts = append(drafts, d.Last...)
		}
		var err error
		if sequence, err = i.writer.Append(ctx, drafts...); err != nil {
			return err
		}
	}
	if len(d.Parts) > 0 {
		return nil
	}
	_, err := i.writer.Append(ctx, d.Last...)
	return err
}
