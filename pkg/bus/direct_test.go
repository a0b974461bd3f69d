package bus_test

import (
	"context"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestAFreshReadReturnsTheLastMessageOfEachSubject(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	conn := b.Dial(t, "reader")
	if found, err := conn.DirectGetFresh(t.Context(), topology.Ledger, 0, queuedSubject("a")); err != nil ||
		len(found) != 0 {
		t.Errorf("of an empty stream: %d messages, %v", len(found), err)
	}
	w := b.Writer(t, b.Dial(t, "writer"))
	var last uint64
	for _, key := range []string{"a", "b", "a", "c"} {
		var err error
		if last, err = w.Append(t.Context(), ledger.Free(queued(key))); err != nil {
			t.Fatal(err)
		}
	}
	found, err := conn.DirectGetFresh(t.Context(), topology.Ledger, last,
		queuedSubject("a"), queuedSubject("b"), queuedSubject("missing"))
	if err != nil || len(found) != 2 || found[0].Sequence != 2 || found[1].Sequence != 3 {
		t.Errorf("got %v, %v; want the facts 2 and 3", found, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := conn.DirectGetFresh(ctx, topology.Ledger, last+1, queuedSubject("a")); !fault.Is(err,
		fault.Unavailable) {
		t.Errorf("beyond the end: %v; want Unavailable", err)
	}
}

// A replica that lags behind does not have what was recorded a moment ago, and a plain read calls it missing.
func TestAFreshReadFindsWhatAReplicaThatLagsBehindLacks(t *testing.T) {
	t.Parallel()
	c := bustest.StartClusterWithLag(t)
	w := c.Dial(t, "writer").NewWriter()
	bustest.Go(t, w.Run)
	behind := c.HoldBack(t, topology.Ledger, 50*time.Millisecond)
	missed := 0
	for deadline := time.Now().Add(time.Minute); missed < 5; {
		if time.Now().After(deadline) {
			t.Fatalf("%d plain reads missed a fact: the replica does not lag behind", missed)
		}
		fact := queued("job")
		last, err := w.Append(t.Context(), ledger.Free(fact))
		if err != nil {
			t.Fatal(err)
		}
		if m, err := behind.DirectGet(t.Context(), topology.Ledger, queuedSubject("job")); err != nil ||
			m.Sequence != last {
			missed++
		}
		found, err := behind.DirectGetFresh(t.Context(), topology.Ledger, last, queuedSubject("job"))
		if err != nil || len(found) != 1 || found[0].Sequence != last {
			t.Fatalf("a fresh read of fact %d: %v, %v", last, found, err)
		}
	}
}
