package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// Result is how a round ended.
type Result struct {
	Round
	Done         []string      // what the faults were
	Quiet        time.Duration // from the end of the load until all was quiet and equal
	Facts        int           // in the ledger
	Sent, Stored int           // intents published so far, and acknowledged
	Wrong        []string      // what did not hold
}

// quietWithin is how long a fleet may take to come to rest: longer than a task's deadline,
// an agent's longest pause between two tries, and a server's longest wait for the bus.
const quietWithin = 7 * time.Minute

// Run runs one round. An error means that the harness failed; faults of the system are in
// the result.
func (w *World) Run(ctx context.Context, r Round) (Result, error) {
	res := Result{Round: r}
	var err error
	switch r.Kind {
	case Clone:
		res.Done, res.Wrong, err = w.cloneRound(ctx)
	case Restore:
		res.Done, res.Wrong, err = w.restoreRound(ctx, r)
	default:
		res.Done, res.Wrong, err = w.strikeRound(ctx, r)
	}
	if err != nil {
		return res, err
	}
	began := time.Now()
	res.Wrong = append(res.Wrong, w.rest(ctx)...)
	res.Quiet = time.Since(began)
	var wrong []string
	res.Facts, wrong = w.verify(ctx)
	res.Wrong = append(res.Wrong, wrong...)
	res.Sent, res.Stored = w.counts()
	return res, ctx.Err()
}

// strikeRound publishes intents while faults strike. A guest comes before it, and the
// oldest one goes in the middle of it.
func (w *World) strikeRound(ctx context.Context, r Round) (done, wrong []string, err error) {
	if err := errors.Join(w.inviteGuest(ctx), w.keepJournals()); err != nil {
		return nil, nil, err
	}
	var leaving *fleet.Server
	var wait sync.WaitGroup
	wait.Go(func() { w.load(ctx, r) })
	wait.Go(func() {
		if len(w.guests()) > 1 {
			sleep(ctx, r.Load/3)
			leaving = w.dismissGuest(ctx)
		}
	})
	began := time.Now()
	for _, s := range r.Strikes {
		sleep(ctx, s.At-time.Since(began))
		what, e := w.strike(ctx, s)
		w.logf("  %s", what)
		done, err = append(done, what), errors.Join(err, e)
	}
	wait.Wait()
	err = errors.Join(err, w.mend(), w.dropJournals())
	if leaving != nil && err == nil {
		wrong = w.waitUntilGone(ctx, leaving)
	}
	return done, wrong, err
}

// mend does what a person would: it starts dead processes and empties full disks.
func (w *World) mend() error {
	var errs []error
	for _, d := range w.disks {
		errs = append(errs, d.empty())
	}
	for _, p := range slices.Concat(w.processes(), w.executors()) {
		errs = append(errs, w.revive(p))
	}
	return errors.Join(errs...)
}

// waitUntilGone waits until a decommissioned server has left nothing, and drops it.
func (w *World) waitUntilGone(ctx context.Context, s *fleet.Server) []string {
	ctx, cancel := context.WithTimeout(ctx, quietWithin)
	defer cancel()
	for {
		err := w.left(s)
		if err == nil {
			w.Drop(s)
			return nil
		}
		if ctx.Err() != nil {
			w.Drop(s)
			return []string{err.Error()}
		}
		sleep(ctx, 200*time.Millisecond)
	}
}

// rest waits until the registry and every server agree and nothing is under way, twice in
// a row with more than a beat between, and returns what still differs at the end.
func (w *World) rest(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, quietWithin)
	defer cancel()
	var differ []string
	for equal, looks := 0, 0; equal < 2; looks++ {
		now := w.disagreements(ctx)
		if ctx.Err() != nil {
			return append([]string{fmt.Sprintf("not at rest after %v", quietWithin)}, differ...)
		}
		if equal++; len(now) > 0 {
			equal = 0
			if looks%60 == 59 {
				w.logf("  waits for: %s", now[0])
			}
		}
		differ = now
		sleep(ctx, beat+beat/2)
	}
	return nil
}
