package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// lookAgain is how often a withdrawal is looked at until it has reached every change.
const lookAgain = 200 * time.Millisecond

// cancelFlags say how an intent is withdrawn.
type cancelFlags struct {
	workFlags
	reason string
}

func (s *session) intentCancelCommand() *cobra.Command {
	var f cancelFlags
	c := &cobra.Command{
		Use: "cancel INTENT", Short: "Withdraw an intent: what has not begun is cancelled, what runs ends by itself",
		Args: exactly("INTENT"), PreRunE: prints(s, recordListing), SuggestFor: []string{"withdraw"},
		RunE: func(c *cobra.Command, a []string) error { return s.cancelIntent(c.Context(), f, a[0]) },
	}
	c.Flags().StringVar(&f.reason, "reason", "", "why")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "show what has not begun, and change nothing")
	timeVar(c.Flags(), &f.timeout, "timeout", time.Minute, 0, "stop waiting after this time, with exit code 7")
	f.addYes(c)
	return c
}

// cancelIntent shows what has not begun, asks, withdraws, and waits until that has reached every change.
func (s *session) cancelIntent(ctx context.Context, f cancelFlags, id string) error {
	r, err := s.getIntent(ctx, id, 0)
	if err != nil {
		return err
	}
	before, err := s.progressOf(ctx, r)
	if err != nil {
		return err
	}
	c := before.GetCounts()
	waiting := int(c.GetToOpen() + c.GetQueued())
	s.say("intent %s (%s, by %s): %s", id, intentText(r.GetIntent()), r.GetActor(), progressText(c))
	switch {
	case r.GetState() == intentv1.State_STATE_ACCEPTED && waiting+int(c.GetExpired()) == 0:
		s.say("nothing to withdraw: every change has begun or ended")
		return nil
	case f.dryRun:
		return showOne(s, s.view(), recordListing, r)
	}
	question := fmt.Sprintf("Withdraw what has not begun (%s)?", plural(waiting, "change"))
	if err := s.confirm(ctx, f.workFlags, question); err != nil {
		return err
	}
	q := &registryv1.WithdrawIntentRequest{IntentId: id, Reason: f.reason}
	w, err := call[*registryv1.WithdrawIntentResponse](ctx, s, "WithdrawIntent", q)
	if err != nil {
		return err
	}
	return s.awaitWithdrawal(ctx, f, w.GetIntent(), c.GetCancelled()+c.GetNeverOpened())
}

// awaitWithdrawal waits until no change of an intent waits to begin, and prints both counts.
func (s *session) awaitWithdrawal(ctx context.Context, f cancelFlags, r record, before uint32) error {
	ctx, stop := context.WithTimeoutCause(ctx, f.timeout, errWaited)
	defer stop()
	for {
		p, err := s.askProgress(ctx, r.GetId(), 1)
		if err != nil && !fault.Is(err, fault.Unavailable) {
			return s.left(ctx, err, "garrison intent show "+r.GetId())
		}
		if c := p.GetCounts(); err == nil && p.GetWithdrawn() && c.GetToOpen()+c.GetQueued() == 0 {
			s.say("withdrawn: %s that had not begun; %d under way, which end by themselves",
				plural(int(c.GetCancelled()+c.GetNeverOpened()-before), "change"), c.GetAssigned()+c.GetRunning())
			return showOne(s, s.view(), recordListing, r)
		}
		if err := pause(ctx, lookAgain); err != nil {
			if errors.Is(err, errWaited) {
				s.say("the withdrawal of intent %s is recorded, and reaches what waits when the task-dispatcher answers", r.GetId())
			}
			return s.left(ctx, err, "garrison intent show "+r.GetId())
		}
	}
}

// progressOf returns how far an intent is; no counts for one that changes nothing, or that ended long ago.
func (s *session) progressOf(ctx context.Context, r record) (progress, error) {
	if r.GetChanged() == 0 || r.GetIntent().GetDryRun() || r.GetState() == intentv1.State_STATE_REFUSED {
		return nil, nil
	}
	p, err := s.askProgress(ctx, r.GetId(), namedEnds)
	if refusal := fault.RefusalOf(err); refusal.GetCode() == "NOT_COUNTED" {
		return nil, nil
	}
	return p, err
}
