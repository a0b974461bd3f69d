package executor

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/metrics"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// serveState serves the state on the debug socket, where one is configured, until stop is called. A
// candidate serves nothing, as the executor that tries it holds the socket.
func (x *Executor) serveState(ctx context.Context) (stop func()) {
	if x.process.Candidate() != nil {
		return func() {}
	}
	hide := debug.Start(ctx, x.cfg.DebugSocket, x.state, x.cfg.Log)
	if x.cfg.MetricsSocket == "" {
		return hide
	}
	x.metrics = metrics.New()
	served, err := metrics.Start("unix:"+x.cfg.MetricsSocket, x.metrics, x.cfg.Log)
	if err != nil { // metrics never end an executor
		x.cfg.Log.Error().Err(err).Msg("metrics not served")
	}
	return func() { hide(); served.Close() }
}

// measure makes the metrics of one run readable, until hide is called.
func (x *Executor) measure(read func() (status.Status, error)) (hide func()) {
	gauges := map[string]func(status.Status) []metrics.Sample{
		metrics.ExecutorState: func(s status.Status) []metrics.Sample {
			return []metrics.Sample{{Value: 1, Labels: []string{s.State}}}
		},
		metrics.ExecutorBus:    func(s status.Status) []metrics.Sample { return metrics.One(metrics.Is(s.Connected)) },
		metrics.ExecutorOutbox: func(s status.Status) []metrics.Sample { return metrics.One(float64(s.Outbox)) },
		metrics.ExecutorAt:     func(s status.Status) []metrics.Sample { return metrics.One(float64(s.Applied)) },
		metrics.ExecutorAgents: func(s status.Status) []metrics.Sample {
			by := map[string]int{}
			for _, a := range s.Agents {
				by[a.Health]++
			}
			return metrics.By(by)
		},
	}
	for name, samples := range gauges {
		x.metrics.Gauge(name, func(context.Context) []metrics.Sample {
			s, err := read()
			if err != nil {
				return nil
			}
			return samples(s)
		})
	}
	x.metrics.Ready("bus", func(context.Context) error {
		s, err := read()
		if err == nil && !s.Connected {
			err = fault.New(fault.Unavailable, "not connected: %s", s.Reason)
		}
		return err
	})
	return func() {
		for name := range gauges {
			x.metrics.Gauge(name, nil)
		}
		x.metrics.Ready("bus", nil)
	}
}

// showState makes the state of one run readable, until hide is called.
func (x *Executor) showState(s *status.Writer, m *monitor.Monitor, e *engine.Engine) (hide func()) {
	x.state.Set("status", func() any {
		is, err := s.Read()
		if err != nil {
			return err
		}
		return is
	})
	x.state.Set("lifecycle", func() any { return m.Facts() })
	x.state.Set("agents", func() any {
		is, err := e.Status()
		if err != nil {
			return err
		}
		return is.Agents
	})
	hideMetrics := x.measure(s.Read)
	return func() {
		hideMetrics()
		for _, name := range []string{"status", "lifecycle", "agents"} {
			x.state.Set(name, nil)
		}
	}
}

// alive returns the check of an executor's liveness: the loop of its engine, if it has one, turns,
// and the journal is writable. A full disk or quota is no reason to restart.
func alive(e *engine.Engine, j *journal.Journal) func(context.Context) error {
	return func(ctx context.Context) error {
		if e != nil {
			if err := e.Turn(ctx); err != nil {
				return fmt.Errorf("the engine's loop does not turn: %w", err)
			}
		}
		return unlessFull(j.Update(func(*journal.Tx) error { return nil }))
	}
}

func unlessFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return err
}
