package events

import (
	"context"
	"errors"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// follow prints the current facts and then new ones. A ledger that was set back is read from its start.
func follow(ctx context.Context, env *cli.Env, r *reader, p *eventPrinter) error {
	limit, last := p.limit, p.last
	for {
		err := followOnce(ctx, env, r, p)
		reset, ok := errors.AsType[*client.ResetError](err)
		if !ok {
			return err
		}
		env.Say("reset: the ledger no longer has fact %d; it was set back, "+
			"as by a restored backup. Reading it from its start", reset.Last.Sequence)
		p.limit, p.last, r.again, r.derived = limit, last, true, nil
	}
}

// followOnce prints until the ledger is set back.
func followOnce(ctx context.Context, env *cli.Env, r *reader, p *eventPrinter) error {
	after, err := r.begin(ctx, p.add)
	for fault.Is(err, fault.Unavailable) && after.After.Sequence == 0 && ctx.Err() == nil {
		if err := cli.Pause(ctx, retryAfter); err != nil {
			return err
		}
		after, err = r.begin(ctx, p.add)
	}
	if err == nil {
		err = p.flush()
	}
	if err != nil {
		return err
	}
	p.last, p.limit = false, 0 // later facts are all shown
	for e, err := range r.client.Follow(ctx, after) {
		if err != nil {
			return err
		}
		if !r.fits(e) {
			continue
		}
		if _, err := p.add([]event{eventOf(e)}); err != nil {
			return err
		}
		if err := p.flush(); err != nil {
			return err
		}
	}
	return nil
}
