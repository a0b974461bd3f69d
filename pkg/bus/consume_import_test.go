package bus_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A message without data and headers ends a request to another account. It must not hold up the messages
// behind it, for anybody who may publish can send one.
func TestEmptyMessagesHoldUpNoOther(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	registry := g.Service(t, topology.UserRegistry)
	var handled atomic.Int32
	bustest.Go(t, func(ctx context.Context) error {
		return registry.Consume(ctx, topology.RegistryIntents, func(context.Context, bus.Message) error {
			handled.Add(1)
			return nil
		})
	})
	const n = 2000
	raw := g.RawPerson(t, "alice", topology.Operator)
	began := time.Now()
	for i := range n {
		subject := topology.IntentSubject(topology.VerbRefresh, "alice", ident.New())
		if err := raw.Publish(subject, make([]byte, i%2)); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Eventually(t, "all are handled", func() bool { return handled.Load() >= n })
	t.Logf("%d in %v", n, time.Since(began))
}
