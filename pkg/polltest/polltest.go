// Package polltest waits in tests for conditions of real processes, files and buses.
package polltest

import (
	"testing"
	"time"
)

// Limit is how long Eventually waits: far longer than anything takes, also on a busy machine.
const Limit = 2 * time.Minute

// The pause between two looks is a share of the time that has passed, so that a wait costs little, also where each look
// starts a program, and lasts an eighth too long at most.
const (
	share    = 8
	shortest = time.Millisecond
	longest  = time.Second

	glimpse = 10 * time.Millisecond
)

// Within calls done until it returns true, for d at most, and reports whether it did.
func Within(d time.Duration, done func() bool) bool {
	began := time.Now()
	for !done() {
		passed := time.Since(began)
		if passed > d {
			return false
		}
		time.Sleep(min(max(passed/share, shortest), longest))
	}
	return true
}

// Glimpsed is Eventually for a condition that holds for a short time only: the pause between two looks does not grow.
func Glimpsed(t testing.TB, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); time.Sleep(glimpse) {
		if time.Since(began) > Limit {
			t.Fatalf("not within %s: %s", Limit, what)
		}
	}
}

// Eventually waits until done returns true. After Limit the test fails and ends.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	if !Within(Limit, done) {
		t.Fatalf("not within %s: %s", Limit, what)
	}
}

// Succeeds waits until done returns no error. After Limit the test fails with the last one, and ends.
func Succeeds(t testing.TB, what string, done func() error) {
	t.Helper()
	var err error
	if !Within(Limit, func() bool { err = done(); return err == nil }) {
		t.Fatalf("not within %s: %s: %v", Limit, what, err)
	}
}
