package fold

import (
	"context"

	viewv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/view/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Measure adds the follower's metrics and checks to a Set: whether the bus accepts it, and how far it has folded.
func (f *Follower) Measure(m *metrics.Set) {
	m.Gauge(metrics.BusConnected, func(context.Context) []metrics.Sample {
		return metrics.One(metrics.Is(f.conn.Connected()))
	})
	m.Gauge(metrics.FoldReady, func(context.Context) []metrics.Sample {
		return metrics.One(metrics.Is(f.progress().Ready))
	})
	m.Gauge(metrics.FoldPosition, func(context.Context) []metrics.Sample {
		return metrics.One(float64(f.Position()))
	})
	m.Gauge(metrics.FoldLag, func(ctx context.Context) []metrics.Sample {
		end, err := f.conn.Stream(ctx, topology.Ledger)
		if err != nil {
			return nil
		}
		return metrics.One(float64(end.LastSequence - min(f.Position(), end.LastSequence)))
	})
	m.Gauge(metrics.FoldUnread, func(context.Context) []metrics.Sample { return metrics.One(sum(f.Unread())) })
	m.Gauge(metrics.FoldUnfit, func(context.Context) []metrics.Sample { return metrics.One(sum(f.Unfit())) })
	m.Ready("bus", func(context.Context) error {
		if a := f.conn.Access(); !f.conn.Connected() {
			return fault.New(fault.Unavailable, "not connected: %s", a.Reason)
		}
		return nil
	})
	m.Ready("view", func(context.Context) error {
		select {
		case <-f.Ready():
			return nil
		default:
			return fault.New(fault.Unavailable, "replays the ledger, at %d", f.Position())
		}
	})
}

func sum(all []*viewv1.FactCount) (n float64) {
	for _, c := range all {
		n += float64(c.GetCount())
	}
	return n
}
