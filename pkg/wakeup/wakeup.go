// Package wakeup lets any number of goroutines wake one that waits, and one wait for a time.
//
// Guarantees:
//
//  1. Wake never blocks.
//  2. Wakes before the next receive from C count as one.
//  3. A Wake is never lost: after it, a receive from C succeeds.
package wakeup

import (
	"context"
	"time"
)

// Signal is a wake-up for one waiting goroutine. It is safe for concurrent use; create it
// with New.
type Signal struct{ c chan struct{} }

// New returns a signal that nothing has woken yet.
func New() Signal { return Signal{make(chan struct{}, 1)} }

// Wake lets one receive from C succeed, now or later. It never blocks.
func (s Signal) Wake() {
	select {
	case s.c <- struct{}{}:
	default:
	}
}

// C returns the channel that the waiting goroutine receives from.
func (s Signal) C() <-chan struct{} { return s.c }

// Pause returns nil after a time, or the error of ctx when that is done before.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
