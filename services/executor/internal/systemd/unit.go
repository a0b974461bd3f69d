package systemd

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// unit is the service of one slot.
type unit struct {
	*Supervisor
	name    string
	spec    supervise.Spec
	log     zerolog.Logger
	changed func()
	before  supervise.Unit // the slot's process from when systemd was not the supervisor
	once    bool           // it is run to its end, and not again

	keeper supervise.Keeper

	changing sync.Mutex // held by a start and a stop, which may take as long as the service does to end

	mu     sync.Mutex  // held to look, and never for long: whoever asks how it is must not wait
	now    *invocation // the one that runs or ran last; nil when none was seen
	status supervise.Status
}

// startWithin bounds a start, to the moment at which the program is executed.
const startWithin = 30 * time.Second

// Start starts the service, or takes over the one that runs.
func (u *unit) Start() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	if i := u.last(); i != nil && i.alive() {
		return true, nil
	}
	if adopted, err := u.adopt(); adopted || err != nil {
		return adopted, err
	}
	return false, errors.Join(u.before.Stop(), u.start())
}

// Adopt takes over the service that runs, and starts none.
func (u *unit) Adopt() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	if i := u.last(); i != nil && i.alive() {
		return true, nil
	}
	return u.adopt()
}

// last gives the invocation that runs or ran last, or nil.
func (u *unit) last() *invocation {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now
}

// adopt takes over the service if its process runs. It is called with changing held.
func (u *unit) adopt() (bool, error) {
	s, err := u.bus.state(u.name)
	if err != nil || !s.runs() {
		return false, err
	}
	if err := u.bus.hold(u.name); isError(err, noSuchUnit) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	u.follow(s)
	return true, nil
}

// start makes the service anew, and returns when its program was executed.
func (u *unit) start() error {
	if err := u.bus.clear(u.name, u.spec.StopTimeout); err != nil {
		return err
	}
	if err := u.create(); err != nil {
		return fmt.Errorf("start %s: %w", u.spec.Name, err)
	}
	s, err := u.started()
	if err == nil && s.runs() {
		err = verify(s, u.spec)
	}
	if err != nil {
		return errors.Join(err, u.bus.clear(u.name, u.spec.StopTimeout))
	}
	u.follow(s)
	return nil
}

// create has systemd make and start the service.
func (u *unit) create() error {
	if err := supervise.Own(u.spec.Dir, u.spec.Sandbox.GetUser()); err != nil {
		return err
	}
	out, err := os.OpenFile(u.spec.Output, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600) // systemd would let others read it
	if err != nil {
		return fmt.Errorf("open output: %w", err)
	}
	_ = out.Close()
	input, err := u.input()
	if err != nil {
		return err
	}
	if input != nil {
		defer func() { _ = input.Close() }()
	}
	bursts := u.policy.CrashLoop
	u.mu.Lock()
	if u.status.CrashLoop {
		bursts = 1
	}
	u.mu.Unlock()
	settings, err := u.properties(input, bursts)
	if err != nil {
		return err
	}
	// What was cleared is dropped by systemd a moment later.
	return eventually(startWithin, func() (bool, error) {
		err := u.bus.startTransient(u.name, settings)
		return !isError(err, unitExists), ignore(err, unitExists)
	})
}

// input gives the standard input on which the agent's sockets wait, or nil.
func (u *unit) input() (*os.File, error) {
	if u.spec.Sockets == nil {
		return nil, nil
	}
	names, files, err := u.spec.Sockets()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, f := range files {
			_ = f.Close()
		}
	}()
	return supervise.Handover(names, files)
}

// started waits until the program was executed, and gives how the service is then. It may
// have ended again.
func (u *unit) started() (s state, err error) {
	err = eventually(startWithin, func() (bool, error) {
		if s, err = u.bus.state(u.name); err != nil {
			return false, err
		}
		switch {
		case s.runs():
			return s.active == "active" || u.spec.Notify && !u.once, nil
		case s.pid != 0 || s.job && s.lastPid == 0:
			return false, nil
		case s.lastPid == 0 && s.rests():
			return false, fmt.Errorf("start %s: systemd did not: %s", u.spec.Name, s.result)
		case s.lastPid != 0 && s.notSetUp():
			return false, fmt.Errorf("start %s: systemd could not execute it: %s", u.spec.Name, s.how())
		}
		return s.lastPid != 0, nil
	})
	return s, err
}

// Stop ends the service and what it started.
func (u *unit) Stop() error {
	u.Leave()
	u.changing.Lock()
	defer u.changing.Unlock()
	if err := errors.Join(u.bus.clear(u.name, u.spec.StopTimeout), u.before.Stop()); err != nil {
		return fmt.Errorf("stop %s: %w", u.spec.Name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now, u.status = nil, supervise.Status{}
	return nil
}

// killWithin is how long a service may take to end after its stop time-out.
const killWithin = 10 * time.Second

// clear stops a service and has systemd forget it. It does nothing when there is none.
func (b *bus) clear(name string, within time.Duration) error {
	if within == 0 {
		within = supervise.DefaultStopTimeout
	}
	s, err := b.state(name)
	if err != nil || s.gone() {
		return err
	}
	if err := b.stop(name); err != nil {
		return err
	}
	err = eventually(within+killWithin, func() (bool, error) {
		s, err := b.state(name)
		return s.rests(), err
	})
	return errors.Join(err, b.forget(name))
}

// Signal sends a signal to the main process.
func (u *unit) Signal(s syscall.Signal) error { return u.bus.signal(u.name, int32(s)) }

// Exited is closed when the process that runs now has ended.
func (u *unit) Exited() <-chan struct{} {
	i := u.last()
	if i == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return i.exited
}

// Ready is closed when the process that runs now said READY=1.
func (u *unit) Ready() <-chan struct{} {
	if i := u.last(); i != nil {
		return i.ready
	}
	return nil
}

// SetReady has nothing to do: systemd remembers READY=1.
func (u *unit) SetReady() error { return nil }

// SetEnv replaces the environment of the next start of ours; systemd's starts have the one before.
func (u *unit) SetEnv(env []string) {
	u.changing.Lock()
	defer u.changing.Unlock()
	u.spec.Env = env
}

// Status gives how it is now.
func (u *unit) Status() supervise.Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.status
	switch {
	case u.now == nil:
	case u.now.alive():
		s.Pid, s.StartedAt = u.now.pid, u.now.startedAt
		if time.Since(s.StartedAt) >= u.policy.Steady {
			s.CrashLoop = false
		}
	default:
		s.LastEnd = u.now.how
	}
	return s
}

// eventually asks until it is done, ever more seldom, and no longer than within.
func eventually(within time.Duration, done func() (bool, error)) error {
	end := time.Now().Add(within)
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("systemd did not get there within %s", within)
		}
		time.Sleep(wait)
	}
}
