package dispatcher

import (
	"context"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/admission"
	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

const (
	// claimSubject is where claims are. It is one subject without wildcards, so that the
	// bus finds its last fact at once, however many tasks there ever were.
	claimSubject = ledger.Prefix + string(ledger.Task) + "." + view.ClaimKey + ".claimed"
	// lookForWork is how often a process looks whether it must take over, at least.
	lookForWork = time.Second
)

// hold gives the claim under which this process may move queued tasks on, 0 when it has
// none. It is called while the view stands still; the view then holds all that was
// recorded under earlier claims, and nothing can be recorded under those any more.
func (d *Dispatcher) hold() uint64 {
	c := d.view.Claim()
	if c.Process != d.process || c.Sequence <= d.doubted.Load() {
		return 0
	}
	return c.Sequence
}

// under drafts a fact that is recorded only while a claim is the last one.
func under(claim uint64, f ledger.Fact) ledger.Draft {
	return ledger.Draft{Fact: f, Guard: ledger.Guard{Subject: claimSubject, Sequence: claim}}
}

// doubt gives a claim up after an error that leaves open whether something was recorded
// under it. A new claim settles it: whatever comes behind that one is not recorded.
func (d *Dispatcher) doubt(claim uint64, err error) {
	if err != nil && !fault.Is(err, fault.Conflict) {
		raise(&d.doubted, claim)
	}
}

// newClaimer makes the pass that takes over when there is something to do and nobody does it.
func (d *Dispatcher) newClaimer() pass {
	p := &admission.Patience{Most: d.TakeOverAfter}
	return func(ctx context.Context) (time.Duration, error) {
		if left, due := p.Left(d.outlook(), time.Now()); !due {
			return nextLook(left), nil
		}
		// The view may lag behind, and what it lacks may be what somebody else did.
		once, cancel := context.WithTimeout(ctx, bus.DefaultTimeout)
		defer cancel()
		if err := d.catchUp(once); err != nil {
			return 0, err
		}
		if left, due := p.Left(d.outlook(), time.Now()); !due {
			return nextLook(left), nil
		}
		return 0, d.claim(ctx)
	}
}

func nextLook(left time.Duration) time.Duration {
	if left == 0 {
		return lookForWork
	}
	return min(left, lookForWork)
}

// outlook looks whether there is something to do, and who does it.
func (d *Dispatcher) outlook() (o admission.Outlook) {
	d.fold.Read(func() {
		c := d.view.Claim()
		o = admission.Outlook{Held: d.hold() > 0, Mine: c.Process == d.process, Claim: c.Sequence, Progress: max(c.Sequence, c.Moved)}
		o.Work = !o.Held && (d.overdue.Load() || len(d.view.Admissions(d.Concurrency, 1)) > 0 || len(d.view.Outdated(1)) > 0)
	})
	return o
}

// claim makes this process the one that moves queued tasks on, and waits until its view
// holds everything that was recorded before. Of several that claim at once one does.
func (d *Dispatcher) claim(ctx context.Context) error {
	var last view.Claim
	d.fold.Read(func() { last = d.view.Claim() })
	o := origin{cause: ledger.CausedByClock}
	if last.Sequence > 0 {
		o.cause = ledger.CausedByFact(last.Sequence)
	}
	f := d.fact(view.ClaimKey, &taskv1.Claimed{ProcessId: d.process, FromProcessId: last.Process}, o)
	sequence, err := d.writer.Append(ctx, under(last.Sequence, f))
	if err != nil {
		return err
	}
	d.Log.Info().Uint64(logs.Sequence, sequence).Str("process", d.process).Str("from", last.Process).Msg("admission claimed")
	return d.fold.Wait(ctx, sequence)
}
