package bus

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// lateRecorder refuses, after one try without an answer, and has forgotten all ids.
type lateRecorder struct{ tries int }

func (l *lateRecorder) record(context.Context, []*nats.Msg) (uint64, error) {
	if l.tries++; l.tries == 1 {
		return 0, fault.New(fault.Unavailable, "no answer")
	}
	return 0, refused(codeWrongLastSequence)
}

func (l *lateRecorder) find(context.Context, *nats.Msg) (uint64, error) { return 0, nil }

// A machine that slept between two tries asks a stream that has forgotten the first.
func TestAConflictAfterTheWindowLeavesTheOutcomeOpen(t *testing.T) {
	t.Parallel()
	for slept, want := range map[time.Duration]fault.Kind{0: fault.Conflict, 2 * believeFor: fault.Unavailable} {
		u, err := newUnit(t.Context(), []ledger.Draft{ledger.Free(ledger.Fact{
			Noun: ledger.Task, Key: "a", Body: &taskv1.Queued{}, ID: "one", At: time.Now(),
			Source: ledger.Dispatcher, Actor: "test",
		})}, 1)
		if err != nil {
			t.Fatal(err)
		}
		u.born = u.born.Add(-slept)
		newWriter(&lateRecorder{}).commitTogether(t.Context(), []*unit{u})
		if r := <-u.done; !fault.Is(r.err, want) {
			t.Errorf("slept %v: %v (%v), want %v", slept, r.err, fault.KindOf(r.err), want)
		}
	}
}

func TestAllTriesEndWellWithinTheLedgersWindow(t *testing.T) {
	t.Parallel()
	for _, s := range topology.Streams(1) {
		tries := max(appendWithin, commitWithin)
		if s.Name == topology.Ledger && (believeFor > s.Duplicates/2 || tries > believeFor/2) {
			t.Errorf("believed for %v and tried for %v, with a window of %v", believeFor, tries, s.Duplicates)
		}
	}
}

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

func TestFactsThatAreRecordedOneByOneAreNotKeptWaiting(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, apartBelow} {
		if stored, took := appendAtOnce(t, n); len(stored) != n || took > 0 {
			t.Errorf("%d facts: requests of %v after %v, want %d at once", n, stored, took, n)
		}
	}
}

func TestManyFactsAreGatheredIntoOneBatch(t *testing.T) {
	t.Parallel()
	const many = 2 * apartBelow
	if stored, _ := appendAtOnce(t, many); len(stored) != 1 || stored[0] != many {
		t.Errorf("%d facts: requests of %v, want one", many, stored)
	}
}

// appendUnder appends facts that all wait when the writer begins, each under a guard of its own or, with shared, under
// one that all have, and returns the requests that stored them.
func appendUnder(t *testing.T, n int, shared bool, several func() bool) (stored []int) {
	synctest.Test(t, func(t *testing.T) {
		s := &sizes{}
		w := newWriter(s)
		w.several = several
		var waiting sync.WaitGroup
		for i := range n {
			waiting.Go(func() {
				f := ledger.Fact{
					Noun: ledger.Task, Key: fmt.Sprint("t", i), Body: &taskv1.Queued{}, ID: fmt.Sprint(i),
					At: time.Now(), Source: ledger.Dispatcher, Actor: "test",
				}
				d := ledger.OnKey(f, 0)
				if shared {
					d.Guard.Subject = ledger.FactSubject(ledger.Task, "claim", "claimed")
				}
				if _, err := w.Append(t.Context(), d); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = w.Run(ctx) }()
		waiting.Wait()
		stored = s.stored
		stop()
		<-ended
	})
	return stored
}

func TestFactsUnderOneGuardGoTogetherToABusWithSeveralServers(t *testing.T) {
	t.Parallel()
	one, several := func() bool { return false }, func() bool { return true }
	for name, test := range map[string]struct {
		shared   bool
		several  func() bool
		requests int
	}{
		"one guard, several servers": {true, several, 1},
		"one guard, one server":      {true, one, 20},
		"guards of their own":        {false, several, 20},
	} {
		if stored := appendUnder(t, 20, test.shared, test.several); len(stored) != test.requests {
			t.Errorf("%s: requests with %v facts, want %d", name, stored, test.requests)
		}
	}
}
