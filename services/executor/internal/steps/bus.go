package steps

import (
	"context"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/deadline"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

// A version may cut its server off from the bus, out of reach of a rollback. So one that worked must also leave
// the bus answering, if that answered before the switch. An outage of the bus looks the same from the server, so the
// rollback decides whose loss it was: when the bus answers again with the old version, the new one had cut the server
// off; when it does not, nothing is said against the version.

// Bus is what the steps ask of the bus.
type Bus interface {
	// Connected reports, at once, whether the bus can be reached.
	Connected() bool
	// Answers asks the bus, over a new connection where the old one is lost. It returns why it does not answer.
	Answers(ctx context.Context) error
}

const (
	answerWithin = 5 * time.Second // one request to the bus
	askEvery     = time.Second     // between two of them
)

// SeeBus notes before the switch whether the bus can be reached.
type SeeBus struct{ Bus Bus }

// Do implements Step.
func (s SeeBus) Do(_ context.Context, r *Run) error {
	r.BusAnswered = s.Bus != nil && s.Bus.Connected()
	return nil
}

// KeepBus refuses a version with which the bus no longer answers.
type KeepBus struct{ Bus Bus }

// Do implements Step.
func (s KeepBus) Do(ctx context.Context, r *Run) error {
	if s.Bus == nil || !r.BusAnswered {
		return nil
	}
	within := deadline.BusWithin(r.To.GetRun())
	why := s.await(ctx, r, within)
	if why == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	return refuse(code.CutOff, "the bus answered before the switch, and did not for %s with %s: %s",
		within, r.To.GetVersion(), change.OneLine(why))
}

// await asks the bus until it answers, for a while at most, and returns why it does not.
func (s KeepBus) await(ctx context.Context, r *Run, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for first := true; ; first = false {
		asked, done := context.WithTimeout(ctx, answerWithin)
		why := s.Bus.Answers(asked)
		done()
		if why == nil {
			return nil
		}
		if first {
			r.Log.Warn().Err(why).Dur("within", within).Msg("bus does not answer; waiting before a rollback")
			r.Point("bus away")
		}
		if wakeup.Pause(ctx, askEvery) != nil {
			return why
		}
	}
}

// BlameBus follows a rollback from a version with which the bus did not answer.
type BlameBus struct{ Keep KeepBus }

// Do implements Step.
func (s BlameBus) Do(ctx context.Context, r *Run) error {
	f := r.Failure
	if f == nil || f.Code != code.CutOff || s.Keep.Bus == nil {
		return nil
	}
	within := deadline.BusWithin(r.To.GetRun())
	why := s.Keep.await(ctx, r, within)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if why != nil {
		f.Code = code.BusLost
		f.Reason += fmt.Sprintf("; nor did it for %s after the rollback", within)
	}
	return nil
}
