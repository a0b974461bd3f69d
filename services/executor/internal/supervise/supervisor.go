// Package supervise runs the processes of agents behind one interface, Supervisor. Direct starts them itself and needs
// nothing else; package systemd has the other implementation. The restart policy (policy.go) is the same for both.
//
// A process belongs to a slot: one version of one agent. Direct writes each start to the slot's record before the
// process exists, with a token that the process carries in its environment (package proctree). So a restarted executor
// finds every process that an earlier one started, whenever that was killed, and adopts it instead of starting a second
// one.
//
// Guarantees of Direct:
//
//  1. A slot has at most one process, also across crashes of the executor. An agent's process whose record was lost is
//     ended before another one starts.
//  2. A process is identified by its id, its start time and the boot. A reused id is neither adopted nor signalled.
//  3. Stop ends the whole process group and the orphans that left the group or the session: SIGTERM, and SIGKILL after
//     the time-out. When a process ends by itself, what it left is killed before the next start. A process that the
//     kernel cannot kill does not block a start; it stays in the record, and Stop fails until it has ended.
//  4. A kept process that ends is started again after an exponential back-off, which is never longer than it has been
//     failing, and over as soon as a known cause is gone. One that keeps ending is reported as a crash loop.
//  5. The end of the executor does not affect the processes: their output goes to a file, not to a pipe, and they lead
//     sessions of their own.
//  6. An output file is cut when Policy.OutputBytes are found in it; the part before is kept in output.log.1. Its size
//     is read every 2 s at least, and up to every 25 ms the faster it grows.
//  7. Output is read by positions that stay valid when the file is cut (read.go). The files are opened without
//     following links, so that an agent cannot have the executor read or write another file.
//  8. Limits and confinements that it cannot enforce are refused before anything changes.
package supervise

import (
	"errors"
	"io/fs"
	"os"
	"sync"
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
	starts starts
}

// NewDirect returns the supervisor of the agents below a root.
func NewDirect(root layout.Root, p Policy) *Direct { return &Direct{root: root, policy: p} }

// Unit returns the unit of a slot.
func (d *Direct) Unit(s Spec, log zerolog.Logger, changed func()) Unit {
	return d.starts.newUnit(s, d.policy, log, changed)
}

// RunOnce runs a program to its end.
func (d *Direct) RunOnce(s Spec, interrupted <-chan struct{}) error {
	return d.starts.runOnce(s, interrupted)
}

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

// Keeper runs at most one restart loop at a time. The zero value is ready.
type Keeper struct {
	mu         sync.Mutex
	stop, done chan struct{} // stop is nil while no loop runs
}

// Keep starts the loop unless it runs. The loop must end when stop is closed.
func (k *Keeper) Keep(loop func(stop <-chan struct{})) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.stop != nil {
		return
	}
	stop, done := make(chan struct{}), make(chan struct{})
	k.stop, k.done = stop, done
	go func() {
		defer close(done)
		loop(stop)
	}()
}

// Leave ends the loop, and returns when it has ended.
func (k *Keeper) Leave() {
	k.mu.Lock()
	stop, done := k.stop, k.done
	k.stop = nil
	k.mu.Unlock()
	if stop != nil {
		close(stop)
		<-done
	}
}

// Pause waits, and returns false when stop is closed before.
func Pause(stop <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
		return true
	}
}
