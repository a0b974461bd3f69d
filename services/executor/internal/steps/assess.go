package steps

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/healthcheck"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
)

// secondProbe is how long after a failed probe of the old version it is probed again.
const secondProbe = 200 * time.Millisecond

// Assess notes what is wrong with the old version, so that neither the new one nor the
// rollback is blamed for it. The switch's line in the journal keeps it.
type Assess struct{ Observe *observe.Observer }

// Do implements Step.
func (s Assess) Do(ctx context.Context, r *Run) error {
	r.OldHealth = nil
	if r.From == nil {
		return nil
	}
	if r.OldHealth = s.wrongWith(ctx, r.From); r.OldHealth != nil {
		r.Log.Warn().Str(logs.Reason, r.OldHealth.Reason).Msg("the old version is unhealthy before the switch")
	}
	return ctx.Err()
}

// wrongWith returns what is wrong with an installed agent, or nil.
func (s Assess) wrongWith(ctx context.Context, i *change.Instance) *change.Health {
	if !s.Observe.LinkRight(i) {
		return &change.Health{Code: code.Damaged, Reason: "its link did not lead to its files"}
	}
	if _, err := s.Observe.Images.Whole(i.Image.Digest()); err != nil {
		return &change.Health{Code: code.Damaged, Reason: change.OneLine(err)}
	}
	if !i.Image.IsDaemon() {
		return nil
	}
	u := s.Observe.Processes.Known(i.Agent, i.Image.GetId())
	if u == nil {
		return &change.Health{Code: code.Exited, Reason: "it did not run"}
	}
	switch is := u.Status(); {
	case is.CrashLoop:
		return &change.Health{Code: code.Exited, What: is.LastEnd, Reason: "it kept ending: " + is.LastEnd}
	case is.Pid == 0:
		return &change.Health{Code: code.Exited, What: is.LastEnd, Reason: "it did not run: " + is.LastEnd}
	}
	p, err := s.Observe.Processes.Probe(agent.Installed(i), nil)
	if err == nil {
		err = probeTwice(ctx, p)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return &change.Health{
		Code: code.NotReady, What: p.Name(), Reason: "its probe failed: " + change.OneLine(err),
	}
}

// probeTwice returns an error when the probe fails twice.
func probeTwice(ctx context.Context, p healthcheck.Spec) error {
	if err := p.Once(ctx); err == nil {
		return nil
	}
	if err := wakeup.Pause(ctx, secondProbe); err != nil {
		return err
	}
	return p.Once(ctx)
}
