package engine

import (
	"context"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/probe"
)

const (
	// secondLook is how long after a probe of the old version that failed it is probed once more.
	secondLook = 200 * time.Millisecond
	// badPatience bounds the wait for an old version that was bad before: that it is bad
	// still is no news.
	badPatience = 5 * time.Second
)

// lookBefore takes the old version's health, so that what was wrong before is not held
// against the new one, nor against the undo. The switch's line in the journal keeps it.
func (c *change) lookBefore(ctx context.Context) error {
	c.rec.Before = nil
	if c.rec.From == nil {
		return nil
	}
	if c.rec.Before = c.wrongWith(ctx, c.rec.From); c.rec.Before != nil {
		c.log.Warn().Str(logs.Reason, c.rec.Before.Reason).Msg("the old version is bad before the switch")
	}
	return ctx.Err()
}

// wrongWith says what is wrong with an agent of the inventory now, or nil.
func (c *change) wrongWith(ctx context.Context, i *journal.Instance) *journal.Health {
	if hexOf(c.linked(i.Agent)) != hexOf(i.Image.Digest()) {
		return &journal.Health{Code: codeDamaged, Reason: "its link did not lead to its files"}
	}
	if _, err := c.images.Whole(i.Image.Digest()); err != nil {
		return &journal.Health{Code: codeDamaged, Reason: oneLine(err)}
	}
	if i.Image.GetKind() != agentv1.Kind_KIND_DAEMON {
		return nil
	}
	u := c.knownUnit(i.Agent, i.Image.GetId())
	if u == nil {
		return &journal.Health{Code: probe.CodeExited, Reason: "it did not run"}
	}
	switch s := u.Status(); {
	case s.CrashLoop:
		return &journal.Health{Code: probe.CodeExited, What: s.LastEnd, Reason: "it kept ending: " + s.LastEnd}
	case s.Pid == 0:
		return &journal.Health{Code: probe.CodeExited, What: s.LastEnd, Reason: "it did not run: " + s.LastEnd}
	}
	p, err := c.probeSpec(sideOf(i), nil)
	if err == nil {
		err = twice(ctx, p)
	}
	if err == nil || ctx.Err() != nil {
		return nil
	}
	return &journal.Health{Code: probe.CodeNotReady, What: p.Name(), Reason: "its probe failed: " + oneLine(err)}
}

// codeDamaged is only ever compared: no new version fails so.
const codeDamaged = "DAMAGED"

// twice probes once more before it says that something is wrong.
func twice(ctx context.Context, p probe.Spec) error {
	if err := p.Once(ctx); err == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(secondLook):
	}
	return p.Once(ctx)
}

// patient bounds how long an old version is waited for that was bad before.
func (c *change) patient(p probe.Spec, s side) probe.Spec {
	isOld := c.rec.From != nil && s.image.GetId() == c.rec.From.Image.GetId()
	if c.rec.Before != nil && c.rec.Failure != nil && isOld && (p.Timeout == 0 || p.Timeout > badPatience) {
		p.Timeout = badPatience
	}
	return p
}

// whatFailed says which probe failed or how the process ended, for a comparison with before.
func (c *change) whatFailed(code string) string {
	switch code {
	case probe.CodeExited:
		if c.unit != nil {
			return c.unit.Status().LastEnd
		}
	case probe.CodeNotReady, probe.CodeUnstable:
		if p, err := c.probeSpec(c.newSide(), nil); err == nil {
			return p.Name()
		}
	}
	return ""
}
