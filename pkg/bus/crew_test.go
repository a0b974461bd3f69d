package bus

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestACrewDoesEverythingWithinItsPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const places, given = 200, 1000
		var at, most, done atomic.Int32
		ready := make(chan struct{}, given)
		c := newCrew(places, func(int) {
			most.Store(max(most.Load(), at.Add(1)))
			<-ready
			at.Add(-1)
			done.Add(1)
		})
		var giving sync.WaitGroup
		giving.Go(func() {
			for n := range given {
				c.give(n)
			}
		})
		synctest.Wait()
		if n := at.Load(); n != places {
			t.Errorf("%d are under way, want %d and no more", n, places)
		}
		for range given {
			ready <- struct{}{}
		}
		giving.Wait()
		synctest.Wait()
		if n, workers := done.Load(), len(c.places); n != given || workers != idleWorkers || most.Load() > places {
			t.Errorf("%d done, %d at once, %d workers stay; want %d, at most %d, %d",
				n, most.Load(), workers, given, places, idleWorkers)
		}
		c.give(0) // to one that stayed
		ready <- struct{}{}
		synctest.Wait()
		if n := len(c.places); n != idleWorkers {
			t.Errorf("%d workers, want %d", n, idleWorkers)
		}
		c.wait()
		if n := len(c.places); n != 0 {
			t.Errorf("%d workers are left", n)
		}
	})
}
