package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// The states of an executor.
const (
	StateRunning        = "running"
	StateStopped        = "stopped"
	StateDecommissioned = "decommissioned"
)

// Status is what the executor tells about itself, in a file.
type Status struct {
	ServerID  string        `json:"server_id"`
	Cell      string        `json:"cell"`
	State     string        `json:"state"`
	At        time.Time     `json:"at"` // when it was written
	Version   string        `json:"version"`
	Pid       int           `json:"pid,omitempty"`
	Connected bool          `json:"connected"`
	Applied   uint64        `json:"document_generation"`
	Outbox    int           `json:"outbox_length"`
	Agents    []AgentStatus `json:"agents"`
}

// AgentStatus is how one agent was found.
type AgentStatus struct {
	Agent      string    `json:"agent"`
	InstanceID string    `json:"instance_id"`
	Version    string    `json:"version"`
	ImageID    string    `json:"image_id"`
	Health     string    `json:"health"`
	Reason     string    `json:"reason,omitempty"`
	Pid        uint32    `json:"pid,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	Step       string    `json:"step,omitempty"` // of the change that is under way
}

// ReadStatus reads what the executor under root last told. An error is NotFound when none ever ran there.
func ReadStatus(root string) (Status, error) {
	var s Status
	r, err := layout.New(root)
	if err != nil {
		return s, err
	}
	data, err := os.ReadFile(r.Status())
	if errors.Is(err, fs.ErrNotExist) {
		return s, fault.New(fault.NotFound, "no executor ever ran in %s", r)
	}
	if err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	return s, nil
}

// freshFor is how old the status of a running executor may be.
const freshFor = 30 * time.Second

// Fresh says why the executor does not count as running at a time, or gives nil.
func (s Status) Fresh(at time.Time) error {
	if age := at.Sub(s.At); s.State != StateRunning || age > freshFor {
		return fault.New(fault.Unavailable, "the executor is %s, and last said so %s ago", s.State, age.Round(time.Second))
	}
	return nil
}

func writeStatus(root layout.Root, s Status) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if s.State == StateDecommissioned {
		return layout.Write(root.Status(), append(data, '\n'), 0o644)
	}
	return layout.WriteVolatile(root.Status(), append(data, '\n'), 0o644)
}

// decommissioned gives the server that was decommissioned here, if one was.
func decommissioned(root layout.Root) (serverID string, ok bool) {
	s, err := ReadStatus(string(root))
	return s.ServerID, err == nil && s.State == StateDecommissioned
}

// teller writes the status, every interval.
type teller struct {
	root   layout.Root
	engine *engine.Engine
	conn   *bus.Conn
	who    identity.Identity
	every  time.Duration
	log    zerolog.Logger
}

func (t *teller) run(ctx context.Context) error {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		s, err := t.look()
		if err == nil {
			err = writeStatus(t.root, s)
		}
		if err != nil {
			t.log.Warn().Err(err).Msg("status not written") // agents matter more; health finds it
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// end writes the last status of an executor that was told to stop.
func (t *teller) end(agentsStopped bool) {
	s, err := t.look()
	s.State, s.Pid, s.Connected = StateStopped, 0, false
	for i := range s.Agents {
		if agentsStopped {
			s.Agents[i].Health, s.Agents[i].Pid, s.Agents[i].StartedAt = StateStopped, 0, time.Time{}
		}
	}
	if err == nil {
		err = writeStatus(t.root, s)
	}
	if err != nil {
		t.log.Warn().Err(err).Msg("status not written")
	}
}

func (t *teller) look() (Status, error) {
	is, err := t.engine.Status()
	s := Status{
		ServerID: t.who.ServerID, Cell: t.who.Cell, State: StateRunning, At: time.Now(), Version: version.Version,
		Pid: os.Getpid(), Connected: t.conn.Connected(), Applied: is.Applied, Outbox: is.Outbox, Agents: []AgentStatus{},
	}
	for _, f := range is.Agents {
		a := AgentStatus{
			Agent: f.GetAgent(), InstanceID: f.GetInstanceId(), Version: f.GetImage().GetVersion(), ImageID: f.GetImage().GetId(),
			Health: word(f.GetHealth().String(), "HEALTH_"), Reason: f.GetReason(), Pid: f.GetPid(),
		}
		if f.GetStartedAt() != nil {
			a.StartedAt = f.GetStartedAt().AsTime()
		}
		if step, ok := is.Steps[f.GetAgent()]; ok {
			a.Step = word(step.String(), "STEP_")
		}
		s.Agents = append(s.Agents, a)
	}
	return s, err
}

// word gives an enum's value as people read it.
func word(value, prefix string) string { return strings.ToLower(strings.TrimPrefix(value, prefix)) }
