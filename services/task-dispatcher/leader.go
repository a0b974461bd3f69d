package dispatcher

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/decide"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

// claimSubject is the subject of claims. It has no wildcards, so that the bus finds its last fact at
// once, however many tasks were ever recorded.
var claimSubject = ledger.FactSubject(ledger.Task, view.ClaimKey, "claimed")

// maxClaimWait bounds how long a process waits before it checks again whether to take over.
const maxClaimWait = time.Second

// leader elects, among several dispatchers, the process that opens tasks and moves them out of the queue: the one
// that recorded the last fact claimed. There are no heartbeats and no lease. What a former leader
// still records under its own claim is refused by the guard.
type leader struct {
	cfg      Config
	view     *view.View
	follower *fold.Follower
	decider  *decide.Decider
	process  string        // names this start of the service in its claims
	doubted  atomic.Uint64 // the last claim that this process no longer relies on
	overdue  atomic.Bool   // queued tasks are overdue, and this process has no claim to end them under
}

func newLeader(cfg Config, v *view.View, follower *fold.Follower, decider *decide.Decider) *leader {
	return &leader{cfg: cfg, view: v, follower: follower, decider: decider, process: ident.New()}
}

// claim returns the claim under which this process may move queued tasks, 0 when it has none. It
// must be called while the view stands still; the view then holds everything that was recorded
// under earlier claims, and nothing more can be recorded under those.
func (l *leader) claim() uint64 {
	c := l.view.Rows.Claim()
	if c.Process != l.process || c.Sequence <= l.doubted.Load() {
		return 0
	}
	return c.Sequence
}

// under drafts a fact that is recorded only while a claim is the last one.
func under(claim uint64, f ledger.Fact) ledger.Draft {
	return ledger.Draft{Fact: f, Guard: ledger.Guard{Subject: claimSubject, Sequence: claim}}
}

// doubt stops relying on a claim after an error that leaves open whether a fact was recorded under it.
// The next claim settles that: nothing is recorded under the old one after it.
func (l *leader) doubt(claim uint64, err error) {
	if err != nil && !fault.Is(err, fault.Conflict) && !errors.Is(err, bus.ErrDryRun) {
		raise(&l.doubted, claim)
	}
}

// newTakeOver returns the pass that claims when work is due and the leader is idle.
func (l *leader) newTakeOver() pass {
	p := &admission.TakeOver{After: l.cfg.TakeOverAfter}
	return func(ctx context.Context) (time.Duration, error) {
		if left, due := p.Due(l.situation(), l.cfg.Now()); !due {
			return nextCheck(left), nil
		}
		// The view may lag behind, and the facts that it lacks may be the leader's.
		once, cancel := context.WithTimeout(ctx, bus.DefaultTimeout)
		defer cancel()
		if err := l.decider.CatchUp(once); err != nil {
			return 0, err
		}
		if left, due := p.Due(l.situation(), l.cfg.Now()); !due {
			return nextCheck(left), nil
		}
		return 0, l.takeOver(ctx)
	}
}

func nextCheck(left time.Duration) time.Duration {
	if left == 0 {
		return maxClaimWait
	}
	return min(left, maxClaimWait)
}

// situation reads whether work is due, and which process is the leader.
func (l *leader) situation() (s admission.Situation) {
	l.follower.Read(func() {
		c := l.view.Rows.Claim()
		s = admission.Situation{
			Leads:    l.claim() > 0,
			Led:      c.Process == l.process,
			Claim:    c.Sequence,
			Progress: max(c.Sequence, c.Moved),
		}
		queue := l.view.Queue
		s.Work = !s.Leads && (l.overdue.Load() || len(queue.Openings(1)) > 0 || len(queue.Outdated(1)) > 0 ||
			len(queue.Admissions(l.cfg.Now(), l.cfg.Concurrency, 1)) > 0)
	})
	return s
}

// takeOver makes this process the leader, and waits until its view holds everything that was
// recorded before. Of several processes that claim at once, one succeeds.
func (l *leader) takeOver(ctx context.Context) error {
	var last view.Claim
	l.follower.Read(func() { last = l.view.Rows.Claim() })
	o := decide.Origin{Cause: ledger.CausedByClock}
	if last.Sequence > 0 {
		o.Cause = ledger.CausedByFact(last.Sequence)
	}
	body := &taskv1.Claimed{ProcessId: l.process, FromProcessId: last.Process}
	f := l.decider.Fact(o, ledger.Task, view.ClaimKey, body)
	sequence, err := l.decider.Append(ctx, under(last.Sequence, f))
	if err != nil {
		return err
	}
	l.cfg.Log.Info().
		Uint64(logs.Sequence, sequence).
		Str("process", l.process).
		Str("from", last.Process).
		Msg("admission claimed")
	return nil
}
