package bus_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// The facts that reports lead to share disk syncs only if hundreds of reports are handled at a time.
func TestHundredsOfServersReportsAreHandledAtOnce(t *testing.T) {
	t.Parallel()
	c := bustest.Start(t).Dial(t, "task-dispatcher")
	var handling atomic.Int32
	release := make(chan struct{})
	bustest.Go(t, func(ctx context.Context) error {
		return c.Consume(ctx, topology.DispatcherTasks, func(ctx context.Context, _ bus.Message) error {
			handling.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
			return nil
		})
	})
	defer close(release)
	const servers = 300
	for range servers {
		at := topology.ServerAddress{Cell: topology.DefaultCell, Server: ident.New()}
		if _, err := c.PublishDurable(t.Context(),
			bus.Durable{Subject: topology.ReportSubject(at, topology.ReportTask)}); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Eventually(t, "all are handled at once", func() bool { return handling.Load() == servers })
}
