package bus

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// delivered is a message as far as queues look at it.
type delivered struct {
	subject string
	number  int
	size    int
}

func (m delivered) Subject() string { return m.subject }

func (m delivered) Size() int { return m.size }

func reportOf(server string, n int) delivered {
	return delivered{subject: topology.ReportSubject(topology.ServerAddress{Cell: "c", Server: server},
		topology.ReportTask), number: n}
}

func mustTake(t *testing.T, q *queues[delivered]) delivered {
	t.Helper()
	m, ok := q.take(t.Context())
	if !ok {
		t.Fatal("nothing to take")
	}
	return m
}

// A server with many messages delays another server's by one of its own, not by all.
func TestSendersAreServedInTurn(t *testing.T) {
	t.Parallel()
	q := newQueues[delivered](0)
	for i := range 1000 {
		q.put(reportOf("mad", i))
	}
	q.put(reportOf("quiet", 1))
	first, second := mustTake(t, q), mustTake(t, q)
	if first != reportOf("mad", 0) || second != reportOf("quiet", 1) {
		t.Errorf("taken %v and %v, want the first of each sender", first, second)
	}
}

func TestMessagesOfOneSubjectAreHandledOneAfterAnother(t *testing.T) {
	t.Parallel()
	q := newQueues[delivered](0)
	q.put(reportOf("a", 1))
	q.put(reportOf("a", 2))
	first := mustTake(t, q)
	ctx, cancel := context.WithCancel(t.Context())
	context.AfterFunc(ctx, q.interrupt)
	cancel()
	if m, ok := q.take(ctx); ok {
		t.Errorf("took %v while the one before it is handled", m)
	}
	q.done(first)
	if got := mustTake(t, q); got != reportOf("a", 2) {
		t.Errorf("taken %v, want the second", got)
	}
}

// More than the stream keeps of a server never waits: the newest stay, as in the stream.
func TestWhatTheStreamDiscardedIsPushedOut(t *testing.T) {
	t.Parallel()
	q := newQueues[delivered](3)
	var out []int
	for i := range 5 {
		if m := q.put(reportOf("mad", i)); m != (delivered{}) {
			out = append(out, m.number)
		}
	}
	if want := []int{0, 1}; !slices.Equal(out, want) {
		t.Errorf("pushed out %v, want %v", out, want)
	}
	if got := mustTake(t, q).number; got != 2 {
		t.Errorf("taken %d, want 2", got)
	}
}

// One person's intents, each on a subject of its own, leave workers for others.
func TestOneSenderDoesNotHoldAllWorkers(t *testing.T) {
	t.Parallel()
	q := newQueues[delivered](0)
	for i := range workers {
		q.put(delivered{subject: topology.IntentSubject("install", "mad", fmt.Sprint(i))})
	}
	for range workersOfOne {
		mustTake(t, q)
	}
	other := delivered{subject: topology.IntentSubject("install", "other", "1")}
	q.put(other)
	if got := mustTake(t, q); got != other {
		t.Errorf("taken %v, want the other's", got)
	}
}

// A server that sends without an end is handled at its rate, and another one at once.
func TestAServerIsPacedAfterABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueues[delivered](topology.ReportsKept)
		began := time.Now()
		for i := range burstOfOne + 50 {
			q.put(reportOf("mad", i))
			q.done(mustTake(t, q))
		}
		if took := time.Since(began); took < 400*time.Millisecond || took > 600*time.Millisecond {
			t.Errorf("50 messages after the burst took %v, want half a second", took)
		}
		q.put(reportOf("mad", 0))
		q.put(reportOf("quiet", 1))
		if got := mustTake(t, q); got != reportOf("quiet", 1) || time.Since(began) > 600*time.Millisecond {
			t.Errorf("taken %v after %v, want the quiet server's at once", got, time.Since(began))
		}
	})
}

// Senders are forgotten when nothing of them matters.
func TestIdleSendersAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueues[delivered](topology.ReportsKept)
		for i := range 10 * idleSenders {
			q.put(reportOf(fmt.Sprint(i), 0))
			q.done(mustTake(t, q))
			time.Sleep(20 * time.Millisecond)
		}
		if len(q.senders) > 2*idleSenders {
			t.Errorf("%d senders are remembered", len(q.senders))
		}
	})
}

// Everything that is put is taken once or pushed out, in order for each subject, and nothing is left.
func TestQueuesLoseNothing(t *testing.T) {
	t.Parallel()
	const senders, each = 20, 500
	q := newQueues[delivered](64)
	ctx, cancel := context.WithCancel(t.Context())
	defer context.AfterFunc(ctx, q.interrupt)()
	var mu sync.Mutex
	last, handled := map[string]int{}, 0
	var working sync.WaitGroup
	for range workers {
		working.Go(func() {
			for {
				m, ok := q.take(ctx)
				if !ok {
					return
				}
				mu.Lock()
				if m.number < last[m.subject] {
					t.Errorf("%s: %d after %d", m.subject, m.number, last[m.subject])
				}
				last[m.subject] = m.number
				handled++
				mu.Unlock()
				q.done(m)
			}
		})
	}
	pushedOut := 0
	for i := range each {
		for s := range senders {
			if q.put(reportOf(fmt.Sprint(s), i)) != (delivered{}) {
				pushedOut++
			}
		}
	}
	for done := false; !done; {
		mu.Lock()
		done = handled+pushedOut == senders*each
		mu.Unlock()
	}
	cancel()
	working.Wait()
	if len(q.turns)+len(q.busy) != 0 || len(q.empty()) != 0 {
		t.Errorf("left: %d turns, %d busy", len(q.turns), len(q.busy))
	}
}

func TestLargeMessagesOfOneSenderAreHandledAFewAtATime(t *testing.T) {
	q := newQueues[delivered](0)
	const large = bytesOfOne / 4
	for n := range 8 {
		q.put(delivered{subject: topology.IntentSubject("install", "eve", fmt.Sprint(n)), size: large})
	}
	q.put(delivered{subject: topology.IntentSubject("install", "ann", "1"), size: large})
	var taken []delivered
	for len(q.turns) > 0 {
		m, _ := q.take(t.Context())
		taken = append(taken, m)
	}
	if len(taken) != 5 {
		t.Errorf("%d messages are handled at a time; want 4 of one sender, and 1 of another", len(taken))
	}
	for _, m := range taken {
		q.done(m)
	}
	if len(q.turns) == 0 {
		t.Error("nothing follows when those are done")
	}
}

func TestNoMoreIsRequestedThanCanBeHeld(t *testing.T) {
	for kept, want := range map[int]bool{0: true, 64: false} {
		q := newQueues[delivered](kept)
		for n := range 5 {
			q.put(delivered{subject: topology.IntentSubject("install", "eve", fmt.Sprint(n)), size: bytesOfAll / 4})
		}
		if q.full() != want {
			t.Errorf("of a stream that keeps %d of a sender it is full: %v", kept, !want)
		}
		if q.empty(); q.bytes != 0 {
			t.Errorf("%d bytes are held of nothing", q.bytes)
		}
	}
}
