package executor

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/selfupdate"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/systemd"
)

// The supervisors of agents.
const (
	SupervisorAuto    = "auto"    // systemd where it runs the server and we are root, otherwise direct
	SupervisorDirect  = "direct"  // the executor starts processes itself
	SupervisorSystemd = "systemd" // agents are services of systemd
)

// busUpWithin bounds the wait for a system bus that exists and does not answer.
const busUpWithin = 30 * time.Second

// noteSupervisor is the journal's note of the supervisor.
const noteSupervisor = "supervisor"

// supervisor returns the configured supervisor. Agents that the other one runs are stopped and
// started by this one: a slot has one process.
func (x *Executor) supervisor(j *journal.Journal, log zerolog.Logger) (supervise.Supervisor, error) {
	was, err := j.Note(noteSupervisor)
	if err != nil {
		return nil, err
	}
	chosen, name, err := x.choose(was)
	if err != nil {
		return nil, err
	}
	log.Info().Str("supervisor", name).Msg("supervisor chosen")
	if was == name {
		return chosen, nil
	}
	return chosen, j.SetNote(noteSupervisor, name)
}

func (x *Executor) choose(was string) (supervise.Supervisor, string, error) {
	direct := supervise.NewDirect(x.root, *x.cfg.Policy)
	switch want := cmp.Or(x.cfg.Supervisor, SupervisorDirect); want {
	case SupervisorDirect:
		if was != SupervisorSystemd {
			return direct, want, nil
		}
		s, err := x.systemd()
		if notHere(err, was) {
			return direct, want, nil // its processes are gone with it
		}
		if err == nil {
			err = s.Clear()
		}
		return direct, want, err
	case SupervisorSystemd:
		s, err := x.systemd()
		return s, want, err
	case SupervisorAuto:
		s, err := x.systemd()
		if notHere(err, was) {
			return direct, SupervisorDirect, nil
		}
		return s, SupervisorSystemd, err
	default:
		return nil, "", fault.New(fault.Invalid, "unknown supervisor %q (want auto, direct or systemd)", want)
	}
}

// notHere reports whether systemd runs no agents here. Agents that it ran before still run when only
// the bus is missing.
func notHere(err error, was string) bool {
	return errors.Is(err, systemd.ErrNotHere) && !(was == SupervisorSystemd && errors.Is(err, systemd.ErrNoBus))
}

// systemd returns systemd as the supervisor. It waits for a system bus that exists and does not answer:
// another supervisor would run the agents a second time.
func (x *Executor) systemd() (*systemd.Supervisor, error) {
	program, err := selfupdate.Bootstrap()
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(busUpWithin); ; time.Sleep(time.Second) {
		s, err := systemd.New(x.root, *x.cfg.Policy, program)
		if err == nil || errors.Is(err, systemd.ErrNotHere) {
			return s, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("systemd runs the agents here: %w", err)
		}
	}
}
