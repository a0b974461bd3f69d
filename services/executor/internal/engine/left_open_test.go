package engine

import (
	"context"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/simulation/crash/imagetest"
)

func TestAChangeThatTheJournalLeavesOpenEndsTheEngineAndIsResumedByTheNext(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	first := b.run()
	outcome(t, first.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	torn := b.run(func(c *Config) {
		j := c.Journal
		c.FailPoint = func(p string) {
			if p == "linked" {
				_ = j.Close() // from here on nothing can be written
			}
		}
	})
	task := b.want(b.image("cn-agent", "2.0.0", "ready"))
	torn.offer()
	if err := torn.stopped(); err == nil {
		t.Error("the engine goes on beside a change that it left open")
	}
	next := b.run()
	outcome(t, next.wait(task), taskv1.State_STATE_SUCCEEDED)
	if now := next.good("cn-agent", "2.0.0").GetPid(); len(b.pids()) != 1 || b.pids()[0] != int(now) {
		t.Errorf("processes %v, want %d only", b.pids(), now)
	}
}

// busAway is a fetcher for which the bus is away for one of the blobs.
type busAway struct {
	imagetest.Shelf
	of    string
	waits chan struct{} // closed when it is waited for
}

func (a busAway) Fetch(ctx context.Context, b *imagev1.Blob, progress func(uint64)) error {
	if string(b.GetDigest()) != a.of {
		return a.Shelf.Fetch(ctx, b, progress)
	}
	close(a.waits)
	<-ctx.Done()
	return ctx.Err()
}

// The others may have hours to get there; the engine that ends does not wait for them.
func TestAnEngineThatCannotGoOnWaitsForNoOtherChange(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	slow, torn := b.image("gz-tools", "2.0.0", "ready"), b.image("cn-agent", "1.0.0", "ready")
	bus := busAway{imagetest.Shelf{From: b.shelf, To: b.root}, string(slow.GetBlob().GetDigest()), make(chan struct{})}
	r := b.run(func(c *Config) {
		j := c.Journal
		c.Fetcher = bus
		c.FailPoint = func(p string) {
			if p == "linked" {
				_ = j.Close() // from here on nothing can be written
			}
		}
	})
	b.want(slow)
	r.offer()
	<-bus.waits
	b.want(torn)
	r.offer()
	ended := make(chan error, 1)
	go func() { ended <- r.stopped() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it ended without a reason")
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the other change")
	}
}
