// Package status keeps what an executor reports about itself in a file, so that it can be read
// without the bus.
package status

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/removal"
)

// The states of an executor.
const (
	Joined         = "joined" // not run yet
	Running        = "running"
	Suspended      = "suspended"    // its identity, login or orders are in doubt; its agents are kept
	Resting        = "resting"      // the server is dead, and this executor may not remove itself
	Uninstalling   = "uninstalling" // waits until its receipt is stored
	Stopped        = "stopped"
	Gone           = "not running" // it ended without a stop
	Decommissioned = "decommissioned"
)

// fileFormat numbers the file. A file without a number is read.
var fileFormat = format.Spec{Kind: "status", Now: 1, Floor: 1}

// Status is what an executor reports about itself.
type Status struct {
	format.Stamp
	ServerID string    `json:"server_id"`
	Cell     string    `json:"cell"`
	State    string    `json:"state"`
	At       time.Time `json:"at"` // when it was written
	Version  string    `json:"version"`
	process
	Connected bool      `json:"connected"`
	Code      string    `json:"code,omitempty"` // why it is in this state, or disconnected
	Reason    string    `json:"reason,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	NextTry   time.Time `json:"next_try,omitzero"` // to connect
	Applied   uint64    `json:"document_generation"`
	Outbox    int       `json:"outbox_length"`
	Note      string    `json:"note,omitempty"`  // why it does not run its image's program, or why this is outdated
	Busy      []string  `json:"busy,omitempty"`  // the critical sections that last
	Ahead     []string  `json:"ahead,omitempty"` // the images that were fetched ahead of their changes
	Agents    []Agent   `json:"agents"`

	root     layout.Root // where it was read
	touched  time.Time   // when its file was last written, or could not be written
	outdated bool        // its executor runs and has not written it
}

// Agent is the state of one agent.
type Agent struct {
	Agent      string    `json:"agent"`
	InstanceID string    `json:"instance_id"`
	Version    string    `json:"version"`
	ImageID    string    `json:"image_id"`
	Health     string    `json:"health"`
	Reason     string    `json:"reason,omitempty"`
	Pid        uint32    `json:"pid,omitempty"`
	StartedAt  time.Time `json:"started_at,omitzero"`
	Step       string    `json:"step,omitempty"`    // of the open change
	NextTry    time.Time `json:"next_try,omitzero"` // when it is started or repaired again
}

// Read returns what the executor under root last reported. An error is NotFound where no server
// joined, or where its executor removed itself.
func Read(root string) (Status, error) {
	var s Status
	r, err := layout.At(root)
	if err != nil {
		return s, err
	}
	data, touched, err := readFile(r.Status())
	if server, e := removal.Marked(r); errors.Is(err, fs.ErrNotExist) && e == nil && server != "" {
		return Status{
			ServerID: server,
			State:    Decommissioned,
			At:       modified(r.Tombstone()),
			Version:  version.Version,
		}, nil
	}
	if errors.Is(err, fs.ErrNotExist) {
		return neverRan(r)
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("read status: %w", err)
	}
	s.root, s.touched = r, touched
	return s, fileFormat.Check(r.Status(), s.Stamp)
}

// AsOf returns the status as it counts at a time: that of an executor that is gone, or that has not
// written for long, no longer describes the bus and its agents.
func (s Status) AsOf(now time.Time) Status {
	if !s.lives() || now.Sub(s.At) <= freshFor && !s.gone() {
		return s
	}
	s.Reason = fmt.Sprintf("it ended without a stop; its last state was %s", s.State)
	s.State, s.Code, s.Since, s.Connected, s.NextTry = Gone, "", s.At, false, time.Time{}
	if s.unwritten(now) {
		s.State, s.process, s.Reason, s.outdated = Running, process{}, "", true
		s.Note = fmt.Sprintf("it runs, and has not written its status since %s: on a full disk it cannot",
			s.At.Local().Format(time.DateTime))
	}
	s.Agents = slices.Clone(s.Agents)
	for i := range s.Agents {
		s.Agents[i].Health, s.Agents[i].Pid, s.Agents[i].StartedAt = "unknown", 0, time.Time{}
	}
	return s
}

// unwritten reports whether an executor runs at a time that cannot write its status: it holds the journal, and its
// tries to write changed the time of the file.
func (s Status) unwritten(at time.Time) bool {
	return s.root != "" && at.Sub(s.touched) <= freshFor && journal.Held(s.root.Journal())
}

// neverRan returns the status of a server without one.
func neverRan(root layout.Root) (Status, error) {
	who, err := identity.Read(root)
	if fault.Is(err, fault.NotFound) {
		return Status{}, fault.New(fault.NotFound,
			"no executor in %s: no server joined there, or it was decommissioned and its executor removed itself",
			root)
	}
	if err != nil {
		return Status{}, err
	}
	return Status{
		ServerID: who.ServerID,
		Cell:     who.Cell,
		State:    Joined,
		At:       modified(root.Identity()),
		Version:  version.Version,
	}, nil
}

// freshFor is how old the status of a running executor may be.
const freshFor = 30 * time.Second

// Healthy returns why the executor is not healthy at a time, or nil.
func (s Status) Healthy(at time.Time) error {
	age := at.Sub(s.At)
	switch {
	case s.lives() && (age > freshFor || s.gone()) && s.unwritten(at):
		return nil // what the status says is of an earlier time; a restart would not help
	case s.lives() && s.gone():
		return fault.New(fault.Unavailable, "the executor (process %d) is gone; %s ago its state was %s",
			s.Pid, age.Round(time.Second), s.State)
	case age > freshFor, !s.lives():
		return fault.New(fault.Unavailable, "the executor is %s, as of %s ago", s.State, age.Round(time.Second))
	case s.State == Suspended:
		return fault.New(fault.Denied, "the executor is suspended since %s: %s: %s", s.Since.Format(time.RFC3339),
			s.Code, s.Reason)
	}
	return nil
}

// lives reports whether the state is one of an executor that runs.
func (s Status) lives() bool {
	return s.State == Running || s.State == Suspended || s.State == Resting ||
		s.State == Uninstalling
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// WasDecommissioned returns the server that was decommissioned under a root, if one was.
func WasDecommissioned(root layout.Root) (serverID string, ok bool) {
	server, err := removal.Marked(root)
	return server, err == nil && server != ""
}

// Print writes the status for a person.
func (s Status) Print(out io.Writer, now time.Time) error {
	s = s.AsOf(now)
	if s.State == Joined {
		_, err := fmt.Fprintf(out, "server    %s (cell %s)\nexecutor  joined; not run yet\n", s.ServerID, s.Cell)
		return err
	}
	state, bus := s.State, "disconnected"
	if s.Connected {
		bus = "connected"
	} else if s.outdated {
		bus = "unknown"
	}
	fmt.Fprintf(out, "server    %s (cell %s)\nexecutor  %s, version %s, status %s old\n", s.ServerID, s.Cell, state,
		s.Version, now.Sub(s.At).Round(time.Second))
	if s.State == Decommissioned {
		return nil
	}
	if s.Note != "" {
		fmt.Fprintf(out, "note      %s\n", s.Note)
	}
	if s.lives() {
		printLines(out, "busy", s.Busy)
		printLines(out, "ahead", s.Ahead)
	}
	if s.Code != "" && s.lives() {
		fmt.Fprintf(out, "reason    %s since %s: %s\n", s.Code, s.Since.Local().Format(time.DateTime), s.Reason)
	}
	if try := lifecycle.Remedy(s.Code, s.ServerID); try != "" && s.lives() {
		fmt.Fprintf(out, "try       %s\n", try)
	}
	if !s.NextTry.IsZero() && s.lives() {
		fmt.Fprintf(out, "retry     %s\n", s.NextTry.Local().Format(time.DateTime))
	}
	fmt.Fprintf(out, "bus       %s, document %d, %d reports waiting\n\n", bus, s.Applied, s.Outbox)
	return s.printAgents(out, now)
}

// printAgents writes the table of the agents.
func (s Status) printAgents(out io.Writer, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "AGENT\tVERSION\tHEALTH\tPID\tSINCE\tSTEP\tREASON")
	for _, a := range s.Agents {
		pid, since := "-", "-"
		if a.Pid != 0 {
			pid = fmt.Sprint(a.Pid)
		}
		if !a.StartedAt.IsZero() {
			since = a.StartedAt.Local().Format(time.DateTime)
		}
		reason := cmp.Or(a.Reason, "-")
		if a.NextTry.After(now) && s.lives() {
			reason += "; next try at " + a.NextTry.Local().Format(time.TimeOnly)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.Agent, cmp.Or(a.Version, "-"), a.Health, pid, since,
			cmp.Or(a.Step, "-"), reason)
	}
	return w.Flush()
}

// printLines prints each of some lines behind a name.
func printLines(out io.Writer, name string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(out, "%-10s%s\n", name, line)
	}
}
