package registry

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/metrics"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// queues returns how much waits in each queue.
func (r *Registry) queues() map[string]int {
	return map[string]int{
		"appends": r.writer.Waiting(), "rechecks": r.rechecks.Waiting(), "defaults": r.defaults.Waits(),
		"labels": r.labels.Waits(), "lobby": r.lobby.Waits(),
	}
}

// measuredGroups bounds the values of a label; each of these fields has fewer.
const measuredGroups = 16

// measure adds the service's metrics to a Set.
func (r *Registry) measure(m *metrics.Set, v *view.View) {
	r.follower.Measure(m)
	r.writer.Measure(m)
	m.Gauge(metrics.QueueDepth, func(context.Context) []metrics.Sample { return metrics.By(r.queues()) })
	for name, count := range map[string]func() *registryv1.Counts{
		metrics.Servers: func() *registryv1.Counts {
			return v.CountServers(view.ServerFilter{Late: r.presence.Late()}, []string{"presence"}, measuredGroups)
		},
		metrics.ServersStanding: func() *registryv1.Counts {
			return v.CountServers(view.ServerFilter{}, []string{"standing"}, measuredGroups)
		},
		metrics.Instances: func() *registryv1.Counts {
			return v.CountInstances(view.InstanceFilter{}, []string{"health"}, measuredGroups)
		},
	} {
		m.Gauge(name, func(context.Context) []metrics.Sample {
			var counts *registryv1.Counts
			r.follower.Read(func() { counts = count() })
			var out []metrics.Sample
			for _, g := range counts.GetGroups() {
				out = append(out, metrics.Sample{Value: float64(g.GetCount()), Labels: g.GetValues()})
			}
			return out
		})
	}
}
