package executor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/fate"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/uninstall"
)

// The states of an executor.
const (
	StateJoined         = "joined" // it has not run yet
	StateRunning        = "running"
	StateQuarantined    = "quarantined"  // who it is, or what it is told, cannot be trusted; its agents are kept
	StateResting        = "resting"      // the server is dead, and this executor is not to remove itself
	StateUninstalling   = "uninstalling" // it waits to have said so
	StateStopped        = "stopped"
	StateGone           = "not running" // nobody told it to stop
	StateDecommissioned = "decommissioned"
)

// statusFormat numbers the status. One from before there were numbers is read.
var statusFormat = format.Spec{Kind: "status", Now: 1, Floor: 1}

// Status is what the executor tells about itself, in a file.
type Status struct {
	format.Stamp
	ServerID string    `json:"server_id"`
	Cell     string    `json:"cell"`
	State    string    `json:"state"`
	At       time.Time `json:"at"` // when it was written
	Version  string    `json:"version"`
	process
	Connected bool          `json:"connected"`
	Code      string        `json:"code,omitempty"` // why it is in this state, or why the bus is away
	Reason    string        `json:"reason,omitempty"`
	Since     time.Time     `json:"since,omitzero"`
	NextTry   time.Time     `json:"next_try,omitzero"` // to reach the bus
	Applied   uint64        `json:"document_generation"`
	Outbox    int           `json:"outbox_length"`
	Note      string        `json:"note,omitempty"` // why it is not the program of its image, when it is not
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

// ReadStatus reads what the executor under root last told. An error is NotFound when nobody
// joined there, or nothing is left of who did.
func ReadStatus(root string) (Status, error) {
	var s Status
	r, err := layout.New(root)
	if err != nil {
		return s, err
	}
	data, err := os.ReadFile(r.Status())
	if server, e := uninstall.Marked(r); errors.Is(err, fs.ErrNotExist) && e == nil && server != "" {
		return Status{ServerID: server, State: StateDecommissioned, At: modified(r.Tombstone()), Version: version.Version}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return neverRan(r)
	}
	if err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	return s, statusFormat.Check(r.Status(), s.Stamp)
}

// AsOf returns what the status says at a time: one of an executor that is gone, or told
// nothing for long, says nothing any more of the bus and of its agents.
func (s Status) AsOf(now time.Time) Status {
	if !s.lives() || now.Sub(s.At) <= freshFor && !s.gone() {
		return s
	}
	s.Reason = fmt.Sprintf("it ended without a word; it last said that it is %s", s.State)
	s.State, s.Code, s.Since, s.Connected, s.NextTry = StateGone, "", s.At, false, time.Time{}
	s.Agents = slices.Clone(s.Agents)
	for i := range s.Agents {
		s.Agents[i].Health, s.Agents[i].Pid, s.Agents[i].StartedAt = "unknown", 0, time.Time{}
	}
	return s
}

// neverRan gives the status of a server without one.
func neverRan(root layout.Root) (Status, error) {
	who, err := identity.Read(root)
	if fault.Is(err, fault.NotFound) {
		return Status{}, fault.New(fault.NotFound, "there is no executor in %s: nobody joined there, or its server was decommissioned and it removed itself", root)
	}
	if err != nil {
		return Status{}, err
	}
	return Status{ServerID: who.ServerID, Cell: who.Cell, State: StateJoined, At: modified(root.Identity()), Version: version.Version}, nil
}

// freshFor is how old the status of a running executor may be.
const freshFor = 30 * time.Second

// Fresh says why the executor does not count as well at a time, or gives nil.
func (s Status) Fresh(at time.Time) error {
	age := at.Sub(s.At)
	switch {
	case s.lives() && s.gone():
		return fault.New(fault.Unavailable, "the executor (process %d) is gone, and last said %s ago that it is %s", s.Pid, age.Round(time.Second), s.State)
	case age > freshFor, !s.lives():
		return fault.New(fault.Unavailable, "the executor is %s, and last said so %s ago", s.State, age.Round(time.Second))
	case s.State == StateQuarantined:
		return fault.New(fault.Denied, "the executor is quarantined since %s: %s: %s", s.Since.Format(time.RFC3339), s.Code, s.Reason)
	}
	return nil
}

// lives says whether it says this while it runs.
func (s Status) lives() bool {
	return s.State == StateRunning || s.State == StateQuarantined || s.State == StateResting || s.State == StateUninstalling
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

func writeStatus(root layout.Root, s Status) error {
	s.Stamp = statusFormat.Stamp()
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return layout.WriteVolatile(root.Status(), append(data, '\n'), 0o644)
}

// decommissioned gives the server that was decommissioned here, if one was.
func decommissioned(root layout.Root) (serverID string, ok bool) {
	if server, err := uninstall.Marked(root); err == nil && server != "" {
		return server, true
	}
	s, err := ReadStatus(string(root))
	return s.ServerID, err == nil && s.State == StateDecommissioned
}

// teller writes the status, every interval.
type teller struct {
	root     layout.Root
	engine   *engine.Engine
	standing func() standing
	who      identity.Identity
	every    time.Duration
	note     func() string
	log      zerolog.Logger
}

func (t *teller) run(ctx context.Context) error {
	tick := time.NewTicker(t.every)
	defer tick.Stop()
	for {
		t.tell()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// tell writes the status.
func (t *teller) tell() {
	s, err := t.look()
	if err == nil {
		err = writeStatus(t.root, s)
	}
	if err != nil {
		t.log.Warn().Err(err).Msg("status not written") // agents matter more; health finds it
	}
}

// end writes the last status of an executor that was told to stop.
func (t *teller) end(agentsStopped bool) {
	s, err := t.look()
	s.State, s.process, s.Connected = StateStopped, process{}, false
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
		ServerID: t.who.ServerID, Cell: t.who.Cell, At: time.Now(), Version: version.Version,
		process: thisProcess(), Applied: is.Applied, Outbox: is.Outbox, Note: t.note(), Agents: []AgentStatus{},
	}
	s.stand(t.standing())
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

var states = map[fate.Fate]string{
	fate.Work: StateRunning, fate.Quarantine: StateQuarantined, fate.Rest: StateResting, fate.Uninstall: StateUninstalling,
}

// stand writes how the executor itself is.
func (s *Status) stand(is standing) {
	s.State, s.Code, s.Reason = states[is.verdict.Fate], is.verdict.Code, is.why()
	s.Connected = is.access.Login == bus.LoginIn
	if s.Code != "" {
		s.Since = is.since
	}
	if !s.Connected {
		s.NextTry = is.access.NextTry
		if is.access.Reason != "" {
			s.Reason = strings.TrimPrefix(s.Reason+" ("+is.access.Reason+")", " ")
		}
	}
}

// word gives an enum's value as people read it.
func word(value, prefix string) string { return strings.ToLower(strings.TrimPrefix(value, prefix)) }
