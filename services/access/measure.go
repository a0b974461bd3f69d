package access

import (
	"context"
	"strconv"
	"sync"
	"time"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/metrics"
)

// queues returns how much waits in each queue.
func (a *Access) queues() map[string]int { return map[string]int{"appends": a.writer.Waiting()} }

// measure adds the service's metrics to a Set.
func (a *Access) measure(m *metrics.Set) {
	a.follower.Measure(m)
	a.writer.Measure(m)
	m.Gauge(metrics.QueueDepth, func(context.Context) []metrics.Sample { return metrics.By(a.queues()) })
	seen := &lastBus{ask: func(ctx context.Context) (*accessv1.GetBusResponse, error) {
		return a.getBus(ctx, bus.Caller{}, nil)
	}}
	for name, samples := range map[string]func(*accessv1.GetBusResponse) []metrics.Sample{
		metrics.BusServers: busServers, metrics.BusFree: busFree, metrics.BusAlarms: busAlarms,
		metrics.BusMessages: ofStreams(func(s *accessv1.BusStream) uint64 { return s.GetMessages() }),
		metrics.BusBytes:    ofStreams(func(s *accessv1.BusStream) uint64 { return s.GetBytes() }),
		metrics.BusReplicaLag: ofStreams(func(s *accessv1.BusStream) (lag uint64) {
			for _, c := range s.GetCopies() {
				lag = max(lag, c.GetLag())
			}
			return lag
		}),
	} {
		m.Gauge(name, func(ctx context.Context) []metrics.Sample {
			state := seen.read(ctx)
			if state == nil {
				return nil
			}
			return samples(state)
		})
	}
}

// busFor is how long a description of the bus is used again: the servers of the bus are asked for it.
const busFor = 10 * time.Second

// lastBus is the last description of the bus.
type lastBus struct {
	ask func(context.Context) (*accessv1.GetBusResponse, error)

	mu    sync.Mutex
	at    time.Time
	state *accessv1.GetBusResponse
}

// read returns a description that is not older than busFor, or nil. Of several callers, one asks.
func (b *lastBus) read(ctx context.Context) *accessv1.GetBusResponse {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.at) < busFor {
		return b.state
	}
	b.state, _ = b.ask(ctx) // without an answer there are no samples
	b.at = time.Now()
	return b.state
}

func busServers(r *accessv1.GetBusResponse) []metrics.Sample {
	by := map[string]int{strconv.FormatBool(true): 0, strconv.FormatBool(false): 0}
	for _, s := range r.GetServers() {
		by[strconv.FormatBool(s.GetAnswers())]++
	}
	return metrics.By(by)
}

func busFree(r *accessv1.GetBusResponse) []metrics.Sample {
	var out []metrics.Sample
	for _, s := range r.GetServers() {
		if free := float64(s.GetFreeBytes()); s.FreeBytes != nil && (out == nil || free < out[0].Value) {
			out = metrics.One(free)
		}
	}
	return out
}

func busAlarms(r *accessv1.GetBusResponse) []metrics.Sample {
	by := map[string]int{}
	for _, a := range r.GetAlarms() {
		by[a.GetCause()]++
	}
	return metrics.By(by)
}

func ofStreams(value func(*accessv1.BusStream) uint64) func(*accessv1.GetBusResponse) []metrics.Sample {
	return func(r *accessv1.GetBusResponse) []metrics.Sample {
		by := map[string]uint64{}
		for _, s := range r.GetStreams() {
			by[s.GetName()] = value(s)
		}
		return metrics.By(by)
	}
}
