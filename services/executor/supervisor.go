package executor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/systemd"
)

// The supervisors of agents.
const (
	SupervisorAuto    = "auto"    // systemd where it runs the server and we are root, otherwise direct
	SupervisorDirect  = "direct"  // the executor starts processes itself
	SupervisorSystemd = "systemd" // agents are services of systemd
)

// busUpWithin is how long a system bus is waited for that is there and does not answer.
const busUpWithin = 30 * time.Second

// noteSupervisor is under which name the journal knows the supervisor.
const noteSupervisor = "supervisor"

// supervisor gives the supervisor that was asked for. Agents that the other one runs are
// ended, and started by this one: a slot has one process.
func (x *Executor) supervisor(j *journal.Journal, log zerolog.Logger) (supervise.Supervisor, error) {
	var was string
	err := j.Read(func(tx *journal.Tx) error {
		was = tx.Note(noteSupervisor)
		return nil
	})
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
	return chosen, j.Update(func(tx *journal.Tx) error { return tx.SetNote(noteSupervisor, name) })
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
			return direct, want, nil // what it ran is gone with it
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
		return nil, "", fault.New(fault.Invalid, "supervisor %q is not known (want auto, direct or systemd)", want)
	}
}

// notHere says whether systemd runs no agents here. What it ran before it still runs when
// only the bus is missing.
func notHere(err error, was string) bool {
	return errors.Is(err, systemd.ErrNotHere) && !(was == SupervisorSystemd && errors.Is(err, systemd.ErrNoBus))
}

// systemd gives systemd as the supervisor. While the system bus is there and does not
// answer it is waited for: running agents otherwise would run them twice.
func (x *Executor) systemd() (*systemd.Supervisor, error) {
	program, err := firstProgram()
	if err != nil {
		return nil, err
	}
	for end := time.Now().Add(busUpWithin); ; time.Sleep(time.Second) {
		s, err := systemd.New(x.root, *x.cfg.Policy, program)
		if err == nil || errors.Is(err, systemd.ErrNotHere) {
			return s, err
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("agents are run by systemd here: %w", err)
		}
	}
}

// firstProgram gives the program that was started from no image: systemd may start it
// again at any time, also when the image is gone that this process is from.
func firstProgram() (string, error) {
	if first := os.Getenv(bootstrapVariable); first != "" {
		return first, nil
	}
	return os.Executable()
}
