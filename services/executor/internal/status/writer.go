package status

import (
	"context"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
)

// Writer writes the status at an interval.
type Writer struct {
	Root     layout.Root
	Engine   *engine.Engine
	Standing func() monitor.Standing
	Identity identity.Identity
	Interval time.Duration
	Note     func() string
	Log      zerolog.Logger
}

// Run writes the status now and at the interval, until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		s, err := w.Read()
		w.write(s, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// End writes the last status of an executor that was stopped.
func (w *Writer) End(agentsStopped bool) {
	s, err := w.Read()
	s.State, s.process, s.Connected = Stopped, process{}, false
	for i := range s.Agents {
		if agentsStopped {
			s.Agents[i].Health, s.Agents[i].Pid, s.Agents[i].StartedAt = Stopped, 0, time.Time{}
		}
	}
	w.write(s, err)
}

// write writes a status unless reading it failed. It only logs an error: the agents matter more,
// and a health check notices an old status.
func (w *Writer) write(s Status, err error) {
	if err == nil {
		err = write(w.Root, s)
	}
	if err != nil {
		w.Log.Warn().Err(err).Msg("status not written")
	}
}

// Read returns the status now.
func (w *Writer) Read() (Status, error) {
	is, err := w.Engine.Status()
	s := Status{
		ServerID: w.Identity.ServerID, Cell: w.Identity.Cell, At: time.Now(), Version: version.Version,
		process: thisProcess(), Applied: is.Applied, Outbox: is.Outbox, Note: w.Note(),
		Busy: is.Busy, Ahead: is.Ahead, Agents: []Agent{},
	}
	s.stand(w.Standing())
	for _, f := range is.Agents {
		a := Agent{
			Agent: f.GetAgent(), InstanceID: f.GetInstanceId(),
			Version: f.GetImage().GetVersion(), ImageID: f.GetImage().GetId(),
			Health: word(f.GetHealth().String(), "HEALTH_"), Reason: f.GetReason(), Pid: f.GetPid(),
		}
		if f.GetStartedAt() != nil {
			a.StartedAt = f.GetStartedAt().AsTime()
		}
		if f.GetNextAt() != nil {
			a.NextTry = f.GetNextAt().AsTime()
		}
		if step, ok := is.Steps[f.GetAgent()]; ok {
			a.Step = word(step.String(), "STEP_")
		}
		s.Agents = append(s.Agents, a)
	}
	return s, err
}

var states = map[lifecycle.Action]string{
	lifecycle.Work: Running, lifecycle.Suspend: Suspended, lifecycle.Rest: Resting, lifecycle.Uninstall: Uninstalling,
}

// stand sets the state of the executor itself.
func (s *Status) stand(is monitor.Standing) {
	s.State, s.Code, s.Reason = states[is.Outcome.Action], is.Outcome.Code, is.Why()
	s.Connected = is.Access.Login == bus.LoginIn
	if s.Code != "" {
		s.Since = is.Since
	}
	if !s.Connected {
		s.NextTry = is.Access.NextTry
		if is.Access.Reason != "" {
			s.Reason = strings.TrimPrefix(s.Reason+" ("+is.Access.Reason+")", " ")
		}
	}
}

// word returns an enum's value in lower case without its prefix.
func word(value, prefix string) string { return strings.ToLower(strings.TrimPrefix(value, prefix)) }
