package supervise

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Supervisor runs the processes of agents.
type Supervisor interface {
	// Unit returns the unit of a slot, which does nothing yet. changed is called, without any lock, when the unit's
	// status changed by itself; it must not block.
	Unit(s Spec, log zerolog.Logger, changed func()) Unit

	// RunOnce runs a program to its end, for an agent that is a set-up. One that an earlier executor started is stopped
	// first, since its exit status would be unknown. An interrupted one is killed with all that it started.
	RunOnce(s Spec, interrupted <-chan struct{}) error

	// Members returns the processes of every version of an agent.
	Members(agent string) []int

	// Slots returns what this and earlier executors had it run, so that unmanaged processes and services are found.
	Slots() ([]Slot, error)

	// Check refuses limits and confinements that it cannot enforce, so that none is silently absent.
	Check(run *imagev1.Run) error

	// Notifies reports whether the supervisor itself receives READY=1, and Unit.Ready shows it. Otherwise the caller
	// passes a NOTIFY_SOCKET to the process.
	Notifies() bool
}

// Slot is the slot of one version of an agent.
type Slot struct {
	Agent string
	Name  string // of its service; empty for a process that an executor started itself
	Image string // of a service: the start of its image's id, without dashes
	Pid   int    // of such a process
}

// Unit runs the process of one slot. Its methods may be called from any goroutine.
type Unit interface {
	// Start starts the process, or adopts the one that runs already. The process is restarted only after Keep.
	Start() (adopted bool, err error)

	// Adopt adopts the process that runs already, and starts none.
	Adopt() (adopted bool, err error)

	// Keep restarts the process whenever it ends, until Stop or Leave.
	Keep()

	// Leave stops keeping the process, and does not end it.
	Leave()

	// Stop ends the process and all that it started, for good.
	Stop() error

	// Fail ends the process, whose health check has failed since a time, and returns at once. Keep counts that as an
	// end of a process that failed, and starts it again. The process of another program is left alone.
	Fail(why string, since time.Time)

	// Signal sends a signal to the process itself, if one runs.
	Signal(syscall.Signal) error

	// Exited returns a channel that is closed when the current process has ended.
	Exited() <-chan struct{}

	// Ready returns a channel that is closed when the current process sent READY=1; nil when the supervisor does not
	// receive it.
	Ready() <-chan struct{}

	// SetReady records that the current process was ready, for later executors.
	SetReady() error

	// Status returns the current status.
	Status() Status

	// SetEnv replaces the environment of the next start.
	SetEnv(env []string)
}

// Direct is the supervisor that starts processes itself.
type Direct struct {
	root   layout.Root
	policy Policy
}

// NewDirect returns the supervisor of the agents below a root.
func NewDirect(root layout.Root, p Policy) *Direct { return &Direct{root: root, policy: p} }

// Unit returns the unit of a slot.
func (d *Direct) Unit(s Spec, log zerolog.Logger, changed func()) Unit {
	return newUnit(s, d.policy, log, changed)
}

// RunOnce runs a program to its end.
func (d *Direct) RunOnce(s Spec, interrupted <-chan struct{}) error { return runOnce(s, interrupted) }

// Notifies returns false: READY=1 goes to the caller's NOTIFY_SOCKET.
func (d *Direct) Notifies() bool { return false }

// Members returns the processes of every version of an agent.
func (d *Direct) Members(agent string) (out []int) {
	for _, path := range records(d.root.Run(agent)) {
		out = append(out, members(path)...)
	}
	return out
}

// Slots returns the recorded processes that run.
func (d *Direct) Slots() (out []Slot, err error) {
	agents, err := os.ReadDir(d.root.Agents())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, a := range agents {
		for _, path := range records(d.root.Run(a.Name())) {
			r, ok, err := readRecord(path)
			if err != nil || !ok || r.Pid == 0 {
				continue // its next start returns the error, or is about to record the process
			}
			if r, runs := r.find(); runs {
				out = append(out, Slot{Agent: a.Name(), Pid: r.Pid})
			}
		}
	}
	return out, err
}

// Check refuses limits and confinements that only another supervisor can enforce.
func (d *Direct) Check(run *imagev1.Run) error { return checkDirect(run, d.root) }
