package engine

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// A repair is a change to the image that is installed already, because its files are not as
// they were unpacked or its link is not as it was made. A task asks for it, or the document
// does: an entry of which something is damaged is due. A whole copy of a damaged image is
// fetched, verified and staged beside it, takes its place in one step, and what runs is
// started anew from it and proven. Nothing goes back to the damaged copy.
//
// What ends while its image is damaged is started again from the whole copy. The start waits
// for that copy, for holdWithin at most, and not when a repair has just failed: an agent with
// a damaged file is better than none. It is bad until it is repaired.

const (
	// holdWithin bounds how long the start of a process waits for a whole copy of its image.
	holdWithin = 30 * time.Second
	holdLook   = 500 * time.Millisecond
	// longestRest bounds the rest between two repairs of an agent that is damaged again and again.
	longestRest = 24 * time.Hour
)

// repairs is what is known of an agent's repairs without a task.
type repairs struct {
	failed time.Time // when the last one failed
	done   time.Time // when the last one succeeded
	inARow int       // so many succeeded, each within longestRest of the one before
}

// renew puts the fresh copy of the image in the place of a damaged one. The journal says so
// before: from here on the change is finished or undone, never dropped.
func (c *change) renew(context.Context) error {
	digest := c.rec.To.Digest()
	if !c.rec.Renewed && !c.images.Damaged(digest) {
		return nil
	}
	c.rec.Renewed = true
	if err := c.save(); err != nil {
		return err
	}
	c.cfg.FailPoint("renewing")
	if err := c.images.Renew(digest); err != nil {
		return err
	}
	c.cfg.FailPoint("renewed")
	return nil
}

// resumeRenewal goes on with a change that was interrupted when a fresh copy of its image
// took the place of the damaged one, and nothing else was touched.
func (e *Engine) resumeRenewal(ctx context.Context, rec *journal.Change) error {
	c := e.newRun(rec, true)
	c.log.Info().Stringer(logs.Step, rec.Step).Msg("interrupted repair resumed")
	return c.finishFrom(ctx, from(rec.Step))
}

// sweepFresh deletes copies of images that no repair will use.
func (e *Engine) sweepFresh() error {
	return e.images.SweepFresh(func(digest []byte) (bool, error) { return e.neededBesideKept(digest, nil) })
}

// noteRepair remembers how a repair ended.
func (c *change) noteRepair() {
	if c.rec.Mends != journal.MendsImage {
		return
	}
	failed := c.rec.Failure != nil && c.images.Damaged(c.rec.To.Digest())
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.repairs[c.rec.Agent]
	switch {
	case failed:
		r.failed = time.Now()
	case c.rec.Failure == nil && c.rec.TaskID == "":
		if time.Since(r.done) > longestRest {
			r.inARow = 0
		}
		r.done, r.inARow = time.Now(), r.inARow+1
	}
	c.repairs[c.rec.Agent] = r
}

// restOf returns how long a change of an agent without a task rests after it was tried. What
// is damaged soon after each repair, perhaps by the agent itself, is repaired ever more seldom.
func (e *Engine) restOf(agent string) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return min(restAfter<<min(max(e.repairs[agent].inARow-1, 0), 10), longestRest)
}

// waitsForRepair reports whether a side's process must not be started now, as its image is
// damaged and a repair has not just failed.
func (e *Engine) waitsForRepair(s side) bool {
	e.mu.Lock()
	failed := e.repairs[s.agent].failed
	e.mu.Unlock()
	if time.Since(failed) < restAfter {
		return false
	}
	return e.images.Damaged(s.image.GetBlob().GetDigest())
}

// holdStart returns when a process may be started again; false when stop was closed before.
func (e *Engine) holdStart(s side, stop <-chan struct{}) bool {
	for n, end := 0, time.Now().Add(holdWithin); e.waitsForRepair(s); n++ {
		if n == 0 {
			e.stir() // so that the repair begins now
		}
		if time.Now().After(end) {
			e.cfg.Log.Warn().Str(logs.Agent, s.agent).Msg("agent started from damaged files: no whole copy came in time")
			return true
		}
		if !supervise.Pause(stop, holdLook) {
			return false
		}
	}
	return true
}
