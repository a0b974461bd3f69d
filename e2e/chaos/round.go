// Package chaos runs a fleet through rounds of random faults under load, and checks after
// each round that nothing was lost, done twice or shown wrongly.
//
// A round publishes intents of every verb at a steady rate while its faults strike, then
// mends what a person would mend (starts what was killed, empties a full disk), waits
// until all is quiet, and compares:
//
//  1. every acknowledged intent is decided exactly once, and the other invariants of
//     package invariant hold over the whole ledger; no two facts have one id;
//  2. what the registry lists = what answers over HTTP = what runs in /proc = what the
//     disk's links lead to = the configuration that is read, on every server;
//  3. every service's live view equals a fresh fold of the ledger, byte for byte;
//  4. no process without an instance, no temporary file, and nothing left of a server that died;
//  5. memory, descriptors and threads of the control plane stay bounded.
//
// Schedule is pure: a seed always leads to the same rounds. What happens in them is as
// random as the machine.
package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
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
	var acks []load.Acknowledged
	res.Sent, acks = w.Intents.Counts()
	res.Stored = len(acks)
	return res, ctx.Err()
}

// strikeRound publishes intents while faults strike. A guest comes before it, and the
// oldest one goes in the middle of it.
func (w *World) strikeRound(ctx context.Context, r Round) (done, wrong []string, err error) {
	if err := errors.Join(w.inviteGuest(ctx), w.keepJournals()); err != nil {
		return nil, nil, err
	}
	var leaving *rig.Server
	var wait sync.WaitGroup
	wait.Go(func() { w.load(ctx, r) })
	wait.Go(func() {
		if len(w.guests()) > 1 {
			_ = rig.Sleep(ctx, r.Load/3)
			leaving = w.dismissGuest(ctx)
		}
	})
	began := time.Now()
	for _, s := range r.Strikes {
		_ = rig.Sleep(ctx, s.At-time.Since(began))
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

// mend does what a person would: it starts dead processes, empties full disks and deletes stray files.
func (w *World) mend() error {
	var errs []error
	for _, d := range w.disks {
		errs = append(errs, d.Empty())
	}
	errs = append(errs, dropStrays(w))
	for _, p := range w.everyProcess() {
		errs = append(errs, w.revive(p))
	}
	return errors.Join(errs...)
}

// waitUntilGone waits until a decommissioned server has left nothing, and drops it.
func (w *World) waitUntilGone(ctx context.Context, s *rig.Server) []string {
	ctx, cancel := context.WithTimeout(ctx, quietWithin)
	defer cancel()
	defer w.Drop(s)
	if err := rig.Until(ctx, s.Name+" is gone", func(context.Context) error { return w.left(s) }); err != nil {
		return []string{err.Error()}
	}
	return nil
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
		_ = rig.Sleep(ctx, beat+beat/2)
	}
	return nil
}

// Print writes a row for each round and, below, what did not hold. It reports whether all held.
func Print(out io.Writer, where string, results []Result) (good bool) {
	good = true
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(t, "\n%s\nROUND\tKIND\tQUIET\tFACTS\tACKED/SENT\tOUTCOME\tFAULTS\n", where)
	for _, r := range results {
		outcome := "good"
		if len(r.Wrong) > 0 {
			good, outcome = false, fmt.Sprintf("%d WRONG", len(r.Wrong))
		}
		_, _ = fmt.Fprintf(t, "%d\t%s\t%v\t%d\t%d/%d\t%s\t%s\n", r.Number, r.Kind, r.Quiet.Round(time.Second), r.Facts,
			r.Stored, r.Sent, outcome, strings.Join(r.Done, "; "))
	}
	_ = t.Flush()
	for _, r := range results {
		for _, wrong := range r.Wrong {
			_, _ = fmt.Fprintf(out, "round %d: %s\n", r.Number, wrong)
		}
	}
	return good
}

// asksOfReplicas is how often a service is asked for its view: whichever replica is free answers.
const asksOfReplicas = 4

// verify checks the ledger, the views and the processes while all is quiet.
func (w *World) verify(ctx context.Context) (facts int, wrong []string) {
	end, err := w.LedgerEnd(ctx)
	_, views := w.EqualViews(ctx, asksOfReplicas)
	for _, err := range []error{err, w.Verify(ctx), views} {
		if err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	return int(end), append(wrong, w.verifyProcesses()...)
}

// Bounds of a process of the control plane. A leak passes them after some rounds.
const (
	maxDescriptors = 300
	maxThreads     = 100
	maxResidentKiB = 600 << 10
)

func (w *World) verifyProcesses() (wrong []string) {
	for _, p := range w.everyProcess() {
		u, err := rig.Uses(p.Pid())
		switch {
		case err != nil || u.FileDescriptors == 0:
			wrong = append(wrong, p.Name+" does not run")
		case u.FileDescriptors > maxDescriptors || u.Threads > maxThreads || u.ResidentKB > maxResidentKiB:
			wrong = append(wrong, fmt.Sprintf("%s uses %d descriptors, %d threads, %.0f KiB", p.Name,
				u.FileDescriptors, u.Threads, u.ResidentKB))
		}
	}
	return wrong
}
