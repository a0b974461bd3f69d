package intent

import (
	"context"
	"errors"
	"fmt"
	"time"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// withdrawalPoll is the interval of polls until a withdrawal has reached every change.
const withdrawalPoll = 200 * time.Millisecond

// CancelFlags are the flags with which an intent is withdrawn.
type CancelFlags struct {
	Work   work.Flags
	Reason string
}

// Cancel shows the changes of an intent that have not begun, asks for confirmation, withdraws the intent, and waits
// until the withdrawal has reached every change.
func Cancel(ctx context.Context, env *cli.Env, f CancelFlags, r display.Record) error {
	id := r.GetId()
	before, err := progressOf(ctx, env, r)
	if err != nil {
		return err
	}
	c := before.GetCounts()
	waits, text := int(before.GetDeferred()), display.ProgressText(c)
	waiting := int(c.GetToOpen()+c.GetQueued()) + waits
	if waits > 0 {
		text += "; " + listing.Plural(waits, "deferred change")
	}
	env.Say("intent %s (%s, by %s): %s", ident.Handle(id), display.BriefText(r.GetIntent()), r.GetActor(), text)
	switch {
	case r.GetState() == intentv1.State_STATE_ACCEPTED && waiting+int(c.GetExpired()) == 0:
		env.Say("nothing to withdraw: every change has begun or ended")
		if n := int(c.GetAssigned()); n > 0 {
			env.Say("%s assigned, to be made as soon as the server is online; to restore what was there: %s",
				listing.Plural(n, "change"), display.UndoCommand(id, r.GetIntent().GetOverride()))
		}
		return nil
	case f.Work.DryRun:
		return output.ShowOne(env.Output, env.Output.View(), display.Records, r)
	}
	question := fmt.Sprintf("Withdraw what has not begun (%s)?", listing.Plural(waiting, "change"))
	if err := env.Confirm(ctx, f.Work.Yes, question); err != nil {
		return err
	}
	q := &registryv1.WithdrawIntentRequest{IntentId: id, Reason: f.Reason}
	w, err := cli.Call[*registryv1.WithdrawIntentResponse](ctx, env, q)
	if err != nil {
		return err
	}
	return awaitWithdrawal(ctx, env, f, w.GetIntent(), c.GetCancelled()+c.GetNeverOpened())
}

// awaitWithdrawal waits until no change of an intent waits to begin, and prints the cancelled and the running ones.
func awaitWithdrawal(ctx context.Context, env *cli.Env, f CancelFlags, r display.Record, before uint32) error {
	ctx, stop := context.WithTimeoutCause(ctx, f.Work.Timeout, cli.ErrWaited)
	defer stop()
	for {
		p, err := fleet.Progress(ctx, env, r.GetId(), watch.NamedEnds)
		if err != nil && !fault.Is(err, fault.Unavailable) {
			return env.Left(ctx, err, "garrison intent show "+ident.Handle(r.GetId()))
		}
		if c := p.GetCounts(); err == nil && p.GetWithdrawn() && c.GetToOpen()+c.GetQueued() == 0 {
			text, waits := "", int(p.GetDeferred())
			if waits > 0 {
				text = listing.Plural(waits, "deferred change") + " to be given up by their servers; "
			}
			env.Say("withdrawn: %s that had not begun; %s%d running will finish",
				listing.Plural(int(c.GetCancelled()+c.GetNeverOpened()-before), "change"), text,
				int(c.GetAssigned()+c.GetRunning())-waits)
			return output.ShowOne(env.Output, env.Output.View(), display.Records, r)
		}
		if err := cli.Pause(ctx, withdrawalPoll); err != nil {
			if errors.Is(err, cli.ErrWaited) {
				env.Say(
					"the withdrawal of intent %s is recorded; it takes effect when the task-dispatcher answers",
					ident.Handle(r.GetId()))
			}
			return env.Left(ctx, err, "garrison intent show "+ident.Handle(r.GetId()))
		}
	}
}

// progressOf returns the progress of an intent, or nil for one that changes nothing or ended long ago, and for a
// rollout, which changes servers by intents of its own.
func progressOf(ctx context.Context, env *cli.Env, r display.Record) (display.Progress, error) {
	if r.GetIntent().GetRollout() != nil {
		return nil, nil
	}
	if r.GetChanged() == 0 || r.GetIntent().GetDryRun() || r.GetState() == intentv1.State_STATE_REFUSED {
		return nil, nil
	}
	p, err := fleet.Progress(ctx, env, r.GetId(), watch.NamedEnds)
	if refusal := fault.RefusalOf(err); refusal.GetCode() == code.NotCounted {
		return nil, nil
	}
	return p, err
}
