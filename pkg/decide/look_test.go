package decide

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
)

// slowLedger ends one fact further at each question.
type slowLedger struct {
	mu    sync.Mutex
	asked uint64
}

func (l *slowLedger) Stream(context.Context, string) (bus.Stream, error) {
	l.mu.Lock()
	l.asked++
	end := l.asked
	l.mu.Unlock()
	time.Sleep(time.Second)
	return bus.Stream{LastSequence: end}, nil
}

// However many ask, two questions answer all: the one under way when they came is too old for them.
func TestManyLooksAtTheLedgersEndAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := &slowLedger{}
		l := &looks{ledger: ledger}
		var all sync.WaitGroup
		all.Go(func() { _, _ = l.end(t.Context()) })
		synctest.Wait() // its question is under way
		for range 1000 {
			all.Go(func() {
				if end, err := l.end(t.Context()); end != 2 || err != nil {
					t.Errorf("the end is %d (%v), want that of the second question", end, err)
				}
			})
		}
		all.Wait()
		if ledger.asked != 2 {
			t.Errorf("%d questions, want 2", ledger.asked)
		}
	})
}
