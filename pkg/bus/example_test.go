package bus_test

import (
	"context"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// A handler decodes, decides and records. Its error alone settles the message: nil
// acknowledges it, Invalid makes it a dead letter, any other kind retries it.
func ExampleConn_Consume() {
	consume := func(ctx context.Context, conn *bus.Conn, decide func(context.Context, *intentv1.Intent) error) error {
		return conn.Consume(ctx, topology.RegistryIntents, func(ctx context.Context, m bus.Message) error {
			intent := &intentv1.Intent{}
			if err := bus.Unmarshal(m, intent); err != nil {
				return err // Invalid
			}
			return decide(ctx, intent)
		})
	}
	_ = consume // it needs a bus; package bustest starts one for tests
}
