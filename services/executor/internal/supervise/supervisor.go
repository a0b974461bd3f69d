package supervise

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Supervisor runs agents' processes.
type Supervisor interface {
	// Unit gives the unit of a slot, which does nothing yet. changed is called, without
	// any lock, when the unit's status changed by itself; it must not block.
	Unit(s Spec, log zerolog.Logger, changed func()) Unit

	// RunOnce runs a program to its end, for an agent that is a set-up. One that an earlier
	// executor started is stopped first: how it ended could not be known. An interrupted
	// one is killed with what it started.
	RunOnce(s Spec, interrupted <-chan struct{}) error

	// Members gives the processes of every version of an agent.
	Members(agent string) []int

	// Slots gives what it was told to run, whoever told it, so that what nobody knows any
	// more is seen.
	Slots() ([]Slot, error)

	// Check refuses what it cannot keep an agent from, so that a bound or a confinement
	// that was asked for is never silently absent.
	Check(run *imagev1.Run) error

	// Notifies says whether READY=1 comes to the supervisor itself, and is told by
	// Unit.Ready; otherwise whoever starts a unit gives it a NOTIFY_SOCKET.
	Notifies() bool
}

// Slot is the place of one version of an agent.
type Slot struct {
	Agent string
	Name  string // of its service; empty for a process that an executor started itself
	Image string // of a service: the start of its image's id, without dashes
	Pid   int    // of such a process
}

// Unit runs the process of one slot. Its methods may be called from any goroutine.
type Unit interface {
	// Start starts the process, or takes over the one that runs already. That the process
	// ends is told by Exited; it counts as kept only after Keep.
	Start() (adopted bool, err error)

	// Adopt takes over the process that runs already, and starts none.
	Adopt() (adopted bool, err error)

	// Keep has the process run from now on: when it ends it is started again, until Stop or Leave.
	Keep()

	// Leave stops keeping the process, and does not touch it.
	Leave()

	// Stop ends the process and what it started, for good.
	Stop() error

	// Signal sends a signal to the process itself. One that does not run gets none.
	Signal(syscall.Signal) error

	// Exited is closed when the process that runs now has ended.
	Exited() <-chan struct{}

	// Ready is closed when the process that runs now said READY=1; nil when a supervisor is not told.
	Ready() <-chan struct{}

	// SetReady keeps that the process that runs now was ready, for executors after this one.
	SetReady() error

	// Status gives how it is now.
	Status() Status

	// SetEnv replaces the environment of the next start.
	SetEnv(env []string)
}

// Direct is the supervisor that needs no other: it starts processes itself.
type Direct struct {
	root   layout.Root
	policy Policy
}

// NewDirect gives the supervisor of the agents below a root.
func NewDirect(root layout.Root, p Policy) *Direct { return &Direct{root: root, policy: p} }

// Unit gives the unit of a slot.
func (d *Direct) Unit(s Spec, log zerolog.Logger, changed func()) Unit {
	return newUnit(s, d.policy, log, changed)
}

// RunOnce runs a program to its end.
func (d *Direct) RunOnce(s Spec, interrupted <-chan struct{}) error { return runOnce(s, interrupted) }

// Notifies says that it is not told of READY=1.
func (d *Direct) Notifies() bool { return false }

// Members gives the processes of every version of an agent.
func (d *Direct) Members(agent string) (out []int) {
	entries, _ := os.ReadDir(d.root.Run(agent)) // without it nothing of the agent was ever started
	for _, e := range entries {
		if isRecord(e.Name()) {
			out = append(out, members(filepath.Join(d.root.Run(agent), e.Name()))...)
		}
	}
	return out
}

// Slots gives the processes that run and are recorded.
func (d *Direct) Slots() (out []Slot, err error) {
	agents, err := os.ReadDir(d.root.Agents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, a := range agents {
		entries, _ := os.ReadDir(d.root.Run(a.Name())) // without it nothing of the agent was ever started
		for _, e := range entries {
			if !isRecord(e.Name()) {
				continue
			}
			r, ok, err := readRecord(filepath.Join(d.root.Run(a.Name()), e.Name()))
			if err != nil || !ok || r.Pid == 0 {
				continue // a start says what is wrong with it, or is about to say that it runs
			}
			if r, runs := r.find(); runs {
				out = append(out, Slot{Agent: a.Name(), Pid: r.Pid})
			}
		}
	}
	return out, err
}

// Check refuses what only another supervisor can keep an agent from.
func (d *Direct) Check(run *imagev1.Run) error { return checkDirect(run, d.root) }
