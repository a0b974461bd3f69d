package registry

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
)

// handleRollout decides an intent with the verb rollout. It is safe to run twice: a rollout whose plan was recorded in
// part only is aborted, and its intent refused.
func (i *intents) handleRollout(ctx context.Context, ask intent.Ask) error {
	return i.records.decider.Retry(ctx, func(ctx context.Context) error {
		var d rolling.Decision
		decided := false
		ask.At = i.records.now()
		err := i.records.decider.Query(ctx, func() error {
			if _, decided = i.records.view.Intent(ask.ID); decided {
				return nil
			}
			if d = rolling.Decide(i.records.view, ask); d.Refusal != nil {
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
		if err := i.recordRollout(ctx, d); err != nil {
			return err
		}
		i.logDecision(ask, intent.Decision{Changed: d.Changed, Refusal: d.Refusal})
		return nil
	})
}

// recordRollout records the parts of a plan, each after the one before, and the answer with the last.
func (i *intents) recordRollout(ctx context.Context, d rolling.Decision) error {
	var sequence uint64
	for n, part := range d.Parts {
		drafts := []ledger.Draft{ledger.OnKey(part, sequence)}
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
