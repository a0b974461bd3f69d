package bus_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A service in an account of its own follows the ledger while another one writes it.
func TestAServiceFollowsTheLedgerThroughItsAccount(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	writer, reader := g.Service(t, topology.UserRegistry), g.Service(t, topology.UserCatalog)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var read atomic.Uint64
	ended := make(chan error, 1)
	go func() {
		ended <- reader.Replay(ctx, topology.Ledger, 1, func(msgs []bus.Message) error {
			read.Store(msgs[len(msgs)-1].Sequence)
			return nil
		})
	}()
	const facts = 5000
	for i := range facts {
		subject := ledger.FactSubject(ledger.Server, strconv.Itoa(i%100), "online")
		if err := writer.Publish(subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	deadline := time.After(60 * time.Second)
	for read.Load() < facts {
		select {
		case err := <-ended:
			t.Fatalf("ended at %d of %d: %v", read.Load(), facts, err)
		case <-deadline:
			t.Fatalf("read %d of %d", read.Load(), facts)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
