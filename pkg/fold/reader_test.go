package fold

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
)

func TestAWaiterWakesWhenItsPositionIsReachedAndNotBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 200
		var w waiters
		woken := make([]bool, many+1)
		for _, n := range rand.Perm(many) {
			go func() { woken[n+1] = w.wait(t.Context(), uint64(n+1)) }()
		}
		for position := range many + 1 {
			w.reach(uint64(position))
			synctest.Wait()
			for n := 1; n <= many; n++ {
				if woken[n] != (n <= position) {
					t.Fatalf("at %d: the waiter for %d woke: %v", position, n, woken[n])
				}
			}
		}
	})
}

func TestAWaiterThatGivesUpIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w waiters
		ctx, cancel := context.WithCancel(t.Context())
		var gaveUp, stayed bool
		go func() { gaveUp = !w.wait(ctx, 5) }()
		go func() { stayed = w.wait(t.Context(), 7) }()
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !gaveUp || len(w.open) != 1 {
			t.Errorf("gave up: %v; %d waiters are left, want 1", gaveUp, len(w.open))
		}
		w.reach(9)
		synctest.Wait()
		if !stayed || len(w.open) != 0 || !w.wait(ctx, 9) {
			t.Errorf("stayed: %v; %d waiters are left", stayed, len(w.open))
		}
	})
}
