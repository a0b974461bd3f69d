package client

import (
	"context"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	// patienceOf is how many timeouts of one call an outage of the bus or of a service is waited out: 30 s by default.
	// A bus of several servers elects a leader in 4 to 9 s, and a client leaves a server that stands still within 9 s.
	patienceOf = 6
	// leastRetry and mostRetry are the shortest and the longest pause before a try that was not answered is repeated.
	leastRetry, mostRetry = 10 * time.Millisecond, time.Second
	// comesBack is how long a bus that refuses connections is waited for, as while it is started again.
	comesBack = 10 * time.Second
	// sayAfter is the length of an outage that OnWait hears of.
	sayAfter = time.Second
)

// patience is how long the client repeats what was not answered. An outage begins with the first try that was not
// answered and ends with an answer, so that the calls of one outage share its time.
type patience struct {
	within time.Duration

	mu     sync.Mutex
	since  time.Time // when the outage began; zero without one
	said   bool      // onWait heard of it
	onWait func(within time.Duration, cause error)
}

// OnWait calls f once in each outage of the bus or of a service that lasts, with the longest time for which the client
// repeats what was not answered, and why it was not. f may call the client.
func (c *Client) OnWait(f func(within time.Duration, cause error)) {
	c.patience.mu.Lock()
	defer c.patience.mu.Unlock()
	c.patience.onWait = f
}

// answered notes an answer.
func (p *patience) answered() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since, p.said = time.Time{}, false
}

// goesOn notes that a try of something that began at a time was not answered, and reports whether it is repeated.
func (p *patience) goesOn(began time.Time, within time.Duration, err error) bool {
	goes, say := p.note(began, within)
	if say != nil {
		say(within, err)
	}
	return goes
}

// note notes a try that was not answered. It returns whether the try is repeated, and onWait when it must hear of it.
func (p *patience) note(began time.Time, within time.Duration) (goes bool, say func(time.Duration, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.since.IsZero() {
		p.since = began
	}
	lasts := max(time.Since(p.since), time.Since(began))
	if lasts >= within {
		return false, nil
	}
	if lasts < min(sayAfter, within/2) || p.said {
		return true, nil
	}
	p.said = p.onWait != nil
	return true, p.onWait
}

// insist repeats a try until it is answered, ctx ends or the outage lasts too long. A try must be safe to repeat. open
// reports that a try that was not answered may have reached its receiver, whatever became of the last one.
func (c *Client) insist(ctx context.Context, within time.Duration, try func() error) (open bool, err error) {
	began := time.Now()
	for wait := leastRetry; ; wait = min(2*wait, mostRetry) {
		err = try()
		if !unanswered(err) {
			c.patience.answered()
			return open || ctx.Err() != nil, err // a try that its caller left may have reached its receiver
		}
		open = open || !bus.NotSent(err)
		busy := fault.RefusalOf(err).GetCode() == code.Busy
		if ctx.Err() != nil || !busy && asksAgain(ctx) || !c.patience.goesOn(began, within, err) {
			return open, err
		}
		after := time.Duration(fault.RefusalOf(err).GetRetryAfterMs()) * time.Millisecond
		if pause(ctx, max(after, wait)) != nil {
			return open, err
		}
	}
}

// unanswered reports whether a try was not answered, or answered by a service that cannot answer now.
func unanswered(err error) bool {
	switch fault.RefusalOf(err).GetCode() {
	case "", code.NoAnswer, code.Unavailable, code.Busy:
		return fault.Is(err, fault.Unavailable)
	}
	return false
}

type askedAgain struct{}

// asksAgain reports whether the caller repeats what was not answered, and wants to know each time.
func asksAgain(ctx context.Context) bool { return ctx.Value(askedAgain{}) != nil }
