package bus_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A new leader may be behind what the one before announced. A ledger that was called replaced then ended a garrisond
// under load, of a cluster in which nothing was wrong.
func TestAStreamOfAClusterIsAskedAgainBeforeItCountsAsShorter(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t).Dial(t, "test")
	began := time.Now()
	s, err := c.StreamFrom(t.Context(), topology.Ledger, 1)
	if err != nil || s.LastSequence != 0 {
		t.Fatalf("%+v, %v; want an empty stream", s, err)
	}
	if took := time.Since(began); took < bus.LeaderSettles {
		t.Errorf("asked for %v, want %v", took, bus.LeaderSettles)
	}
}

// A replay checks every ten seconds that the stream holds what it read.
func TestAReplayOfAClusterOutlivesALeaderThatIsBehind(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t).Dial(t, "test")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	second, ended := make(chan uint64, 1), make(chan error, 1)
	go func() {
		for err := fault.New(fault.Unavailable, "begin"); ; {
			if !fault.Is(err, fault.Unavailable) { // the fold compares what it has with the stream, and goes on
				ended <- err
				return
			}
			err = c.Replay(ctx, topology.Ledger, 2, func(got []bus.Message) error { // as one that has read the first
				second <- got[0].Sequence
				cancel()
				return nil
			})
		}
	}()
	select {
	case err := <-ended:
		t.Fatalf("it ended while the leader was behind: %v", err)
	case <-time.After(18 * time.Second): // a check, and long enough for its answer to count
	}
	w := c.NewWriter()
	bustest.Go(t, w.Run)
	for range 2 {
		if _, err := w.Append(t.Context(), ledger.Free(queued("a"))); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-ended:
		if len(second) == 0 || err != nil {
			t.Errorf("it ended: %v", err)
		} else if sequence := <-second; sequence != 2 {
			t.Errorf("fact %d; want 2", sequence)
		}
	case <-time.After(time.Minute):
		t.Error("the fact that it waited for did not come")
	}
}

// What was written meanwhile may be in the place of facts that were read and lost.
func TestAReplayEndsBehindAStreamThatWasShorterForAWhile(t *testing.T) {
	t.Parallel()
	c := bustest.Start(t).Dial(t, "test")
	for shorter, want := range map[int]bool{0: false, 1: true, 2: true} {
		err := c.SameStream(t.Context(), topology.Ledger, shorter)
		if fault.Is(err, fault.Unavailable) != want || (err != nil) != want {
			t.Errorf("shorter at %d checks before: %v", shorter, err)
		}
	}
}

func TestTheLeaderOfAStreamNamesTheServerThatIsAway(t *testing.T) {
	t.Parallel()
	nodes := bustest.StartGuardedCluster(t)
	conn := nodes[0].Service(t, topology.UserRegistry)
	look := func() (q bus.Quorum) { // unanswered while leaders are elected
		q, _ = conn.Quorum(t.Context(), topology.Ledger, 3*time.Second)
		return q
	}
	polltest.Eventually(t, "every server is heard", func() bool {
		q := look()
		return q.Leader != "" && q.Others == 2 && len(q.Silent) == 0
	})
	nodes[2].Stop()
	polltest.Eventually(t, "the server that is away is named", func() bool {
		return slices.Equal(look().Silent, []string{nodes[2].Name})
	})
}

func TestABusOfOneServerHasNoOthers(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q, err := b.Dial(t, "one").Quorum(t.Context(), topology.Ledger, time.Second)
	if err != nil || q.Leader == "" || q.Others != 0 || len(q.Silent) != 0 {
		t.Errorf("%+v, %v", q, err)
	}
}
