package bus_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A fact whose id is computed may be stored by another writer already. What shares a batch
// with it is recorded all the same, wherever in the batch the duplicate is.
func TestADuplicateInABatchLosesNothingOfTheRest(t *testing.T) {
	t.Parallel()
	for _, facts := range []int{1, 2} {
		for at := range 3 {
			t.Run(fmt.Sprintf("%d facts each, duplicate at %d", facts, at), func(t *testing.T) {
				b := bustest.Start(t)
				known := queued("known")
				first, err := b.Writer(t, b.Dial(t, "other")).Append(t.Context(), ledger.Free(known))
				if err != nil {
					t.Fatal(err)
				}
				c := b.Dial(t, "test")
				w := c.NewWriter()
				const units = 3
				var last [units]uint64
				var wg sync.WaitGroup
				for i := range units {
					drafts := []ledger.Draft{ledger.Free(known)}
					if i != at {
						drafts = drafts[:0]
						for n := range facts + 1 { // one unit of several facts makes all a batch
							drafts = append(drafts, ledger.OnKey(queued(fmt.Sprintf("k%d-%d", i, n)), 0))
						}
					}
					wg.Go(func() {
						var err error
						if last[i], err = w.Append(t.Context(), drafts...); err != nil {
							t.Errorf("unit %d: %v", i, err)
						}
					})
					polltest.Eventually(t, "it waits", func() bool { return w.Waiting() == i+1 })
				}
				bustest.Go(t, w.Run)
				wg.Wait()
				for i, sequence := range last {
					key := fmt.Sprintf("k%d-%d", i, facts)
					if i == at {
						key = "known"
					}
					m, err := c.DirectGet(t.Context(), topology.Ledger, queuedSubject(key))
					if err != nil || m.Sequence != sequence {
						t.Errorf("unit %d was answered %d and is stored at %d (%v)", i, sequence, m.Sequence, err)
					}
				}
				if last[at] != first {
					t.Errorf("the duplicate was answered %d, it is stored at %d", last[at], first)
				}
			})
		}
	}
}

// A unit that another writer stored in part is not recorded, and is not called stored.
func TestAUnitThatIsStoredInPartIsAConflict(t *testing.T) {
	t.Parallel()
	c, w := started(t)
	one, two, three := queued("one"), queued("two"), queued("three")
	for _, f := range []ledger.Fact{one, three} {
		if _, err := w.Append(t.Context(), ledger.Free(f)); err != nil {
			t.Fatal(err)
		}
	}
	last, err := w.Append(t.Context(), ledger.Free(one), ledger.Free(two), ledger.Free(three))
	if !fault.Is(err, fault.Conflict) {
		t.Errorf("answered %d, %v; want a conflict", last, err)
	}
	if end, _ := c.Stream(t.Context(), topology.Ledger); end.LastSequence != 2 {
		t.Errorf("the ledger ends at %d, want 2", end.LastSequence)
	}
}

// What was recorded is found although a newer fact is on its subject and on its guard.
func TestAFactBehindANewerOneIsFound(t *testing.T) {
	t.Parallel()
	_, w := started(t)
	for name, drafts := range map[string][]ledger.Draft{
		"one fact":    {ledger.OnKey(queued("a"), 0)},
		"three facts": {ledger.OnKey(queued("b"), 0), ledger.OnKey(queued("c"), 0), ledger.Free(queued("d"))},
	} {
		t.Run(name, func(t *testing.T) {
			first, err := w.Append(t.Context(), drafts...)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range drafts {
				if _, err := w.Append(t.Context(), ledger.Free(queued(d.Key))); err != nil {
					t.Fatal(err)
				}
			}
			if again, err := w.Append(t.Context(), drafts...); err != nil || again != first {
				t.Errorf("the same again: %d, %v; it is stored at %d", again, err, first)
			}
		})
	}
}

// A service cannot silence another one by storing facts of its own under the other's ids.
func TestAFactWhoseIDAnotherWriterUsedIsRecorded(t *testing.T) {
	t.Parallel()
	for _, facts := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d facts", facts), func(t *testing.T) {
			c, w := started(t)
			var drafts []ledger.Draft
			for i := range facts {
				f := queued(fmt.Sprintf("k%d", i))
				drafts = append(drafts, ledger.OnKey(f, 0))
				f.Key = "another"
				if _, err := w.Append(t.Context(), ledger.Free(f)); err != nil {
					t.Fatal(err)
				}
			}
			last, err := w.Append(t.Context(), drafts...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range facts {
				m, err := c.DirectGet(t.Context(), topology.Ledger, queuedSubject(fmt.Sprintf("k%d", i)))
				if err != nil || m.Sequence != last-uint64(facts-1-i) {
					t.Errorf("fact %d is at %d (%v), want %d", i, m.Sequence, err, last-uint64(facts-1-i))
				}
			}
		})
	}
}

// A batch whose first messages went to the bus before it was started anew is refused as
// incomplete, which is what the writer takes for a reason to send all of it again.
func TestABusThatWasStartedAnewRefusesTheRestOfABatch(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	back := make(chan struct{})
	nc, err := nats.Connect("", nats.Timeout(time.Minute),
		nats.InProcessServer(b), nats.ReconnectWait(10*time.Millisecond),
		nats.MaxReconnects(-1), nats.ReconnectHandler(func(*nats.Conn) { close(back) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	part := func(key, n string) *nats.Msg {
		header, data, err := ledger.Encode(queued(key), 1)
		if err != nil {
			t.Fatal(err)
		}
		header["Nats-Batch-Id"], header["Nats-Batch-Sequence"] = []string{"one"}, []string{n}
		return &nats.Msg{Subject: queuedSubject(key), Header: header, Data: data}
	}
	if err := nc.PublishMsg(part("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	b.Restart(t, func(string) {})
	last := part("b", "2")
	last.Header["Nats-Batch-Commit"] = []string{"1"}
	<-back
	answer, err := nc.RequestMsg(last, 5*time.Second)
	if err != nil || !strings.Contains(string(answer.Data), `"err_code":10176`) {
		t.Errorf("the end of the batch: %s, %v", answer.Data, err)
	}
}
