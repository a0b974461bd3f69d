package catalog

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// stored puts a sample's chunks on the bus, without a catalog.
func stored(t *testing.T, conn *bus.Conn, s sample) {
	t.Helper()
	for n := range s.Blob.ChunkDigests {
		chunk := bus.Durable{Subject: topology.BlobSubject(s.Blob.Digest, n), Data: s.chunk(n), Once: true}
		if _, err := conn.PublishDurable(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
	}
}

func runningChecks(t *testing.T) (*checks, *bus.Conn) {
	t.Helper()
	conn := bustest.Start(t).Dial(t, "checks")
	c := newChecks(conn, time.Now)
	bustest.Go(t, c.run)
	polltest.Eventually(t, "checks run", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.life != nil
	})
	return c, conn
}

func TestACheckReadsEveryChunk(t *testing.T) {
	t.Parallel()
	c, conn := runningChecks(t)
	s := newSample("a", "1.0.0", "s", 50_000)
	stored(t, conn, s)
	if err := c.verify(t.Context(), s.Blob); err != nil {
		t.Fatal(err)
	}
	damage(t, conn, s.Manifest, 48)
	if err := c.verify(t.Context(), s.Blob); !errors.Is(err, errCorrupt) {
		t.Fatal(err)
	}
	if err := conn.Purge(t.Context(), topology.Blobs, topology.BlobSubject(s.Blob.Digest, 3)); err != nil {
		t.Fatal(err)
	}
	if err := c.verify(t.Context(), s.Blob); !fault.Is(err, fault.NotFound) {
		t.Fatal(err)
	}
}

// A replica that lags behind lacks, for a moment, a chunk that the leader has.
func TestACheckAsksAgainForAChunkThatIsNotThereYet(t *testing.T) {
	t.Parallel()
	c, conn := runningChecks(t)
	s := newSample("a", "1.0.0", "s", 5000)
	done := make(chan error, 1)
	go func() { done <- c.verify(t.Context(), s.Blob) }()
	polltest.Eventually(t, "the check has begun", func() bool { return len(c.slots) > 0 })
	stored(t, conn, s)
	if err := <-done; err != nil {
		t.Errorf("a chunk came while the check ran: %v", err)
	}
}

func TestACheckOutlivesItsRequestAndKeepsItsResult(t *testing.T) {
	t.Parallel()
	c, conn := runningChecks(t)
	s := newSample("a", "1.0.0", "s", 5000)
	stored(t, conn, s)
	c.slots <- struct{}{}
	c.slots <- struct{}{} // the maximum number of checks is running
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	err := c.verify(gone, s.Blob)
	if fault.RefusalOf(err).GetCode() != "STILL_CHECKING" || !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	first, err := c.join(s.Blob)
	if err != nil {
		t.Fatal(err)
	}
	<-c.slots
	<-c.slots
	<-first.done
	if second, err := c.join(s.Blob); second != first || err != nil {
		t.Fatalf("another check was started (%v)", err)
	}
	if err := c.verify(t.Context(), s.Blob); err != nil {
		t.Fatal(err)
	}
	if len(c.running) != 0 {
		t.Fatalf("%d results are kept", len(c.running))
	}
}

func TestAResultThatNoRequestCollectsIsForgotten(t *testing.T) {
	t.Parallel()
	c, conn := runningChecks(t)
	s := newSample("a", "1.0.0", "s", 5000)
	stored(t, conn, s)
	old, err := c.join(s.Blob)
	if err != nil {
		t.Fatal(err)
	}
	<-old.done
	c.mu.Lock()
	c.now = func() time.Time { return time.Now().Add(2 * keepResult) }
	c.mu.Unlock()
	if fresh, err := c.join(s.Blob); fresh == old || err != nil {
		t.Fatalf("the old result is returned (%v)", err)
	}
}

func TestNoCheckStartsWhenTheCatalogStops(t *testing.T) {
	t.Parallel()
	c := newChecks(nil, time.Now)
	if err := c.verify(t.Context(), newSample("a", "1.0.0", "s", 10).Blob); !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
}
