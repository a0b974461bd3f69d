package executor

import (
	"context"

	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// serveState serves the state on the debug socket, where one is configured, until stop is called. A
// candidate serves nothing, as the executor that tries it holds the socket.
func (x *Executor) serveState(ctx context.Context) (stop func()) {
	if x.process.Candidate() != nil {
		return func() {}
	}
	return debug.Start(ctx, x.cfg.DebugSocket, x.state, x.cfg.Log)
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
	return func() {
		for _, name := range []string{"status", "lifecycle", "agents"} {
			x.state.Set(name, nil)
		}
	}
}
