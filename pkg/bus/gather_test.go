package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// sizes is a stream that notes how many messages each request stores.
type sizes struct {
	mu     sync.Mutex
	stored []int
}

func (s *sizes) record(_ context.Context, msgs []*nats.Msg) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = append(s.stored, len(msgs))
	return uint64(len(s.stored)), nil
}

func (s *sizes) find(context.Context, *nats.Msg) (uint64, error) { return 0, nil }

// appendAtOnce appends n single facts that all wait when the writer begins, and returns the requests that stored them
// and the time that this took.
func appendAtOnce(t *testing.T, n int) (stored []int, took time.Duration) {
	synctest.Test(t, func(t *testing.T) {
		s := &sizes{}
		w := newWriter(s)
		var waiting sync.WaitGroup
		for i := range n {
			waiting.Go(func() {
				f := ledger.Fact{
					Noun: ledger.Task, Key: fmt.Sprint("t", i), Body: &taskv1.Queued{}, ID: fmt.Sprint(i),
					At: time.Now(), Source: ledger.Dispatcher, Actor: "test",
				}
				if _, err := w.Append(t.Context(), ledger.Free(f)); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.Run(ctx) }()
		waiting.Wait()
		stored, took = s.stored, time.Since(began)
		stop()
		<-ended
	})
	return stored, took
}

func TestAFactThatIsAloneIsNotKeptWaiting(t *testing.T) {
	if stored, took := appendAtOnce(t, 1); len(stored) != 1 || took > 0 {
		t.Errorf("requests of %v after %v, want one at once", stored, took)
	}
}

func TestManyFactsAreGatheredIntoOneBatch(t *testing.T) {
	const many = 2 * apartBelow
	if stored, _ := appendAtOnce(t, many); len(stored) != 1 || stored[0] != many {
		t.Errorf("%d facts: requests of %v, want one", many, stored)
	}
}
