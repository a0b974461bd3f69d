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
	of      *Supervisor
	name    string
	spec    supervise.Spec
	log     zerolog.Logger
	changed func()
	before  supervise.Unit // the slot's process from before systemd was the supervisor
	once    bool           // run once, to its end
	taken   *taken         // the adopted service; nil for Garrison's own

	keeper supervise.Keeper

	changing sync.Mutex // held by a start and a stop, which may take as long as the service takes to end

	mu     sync.Mutex  // never held for long: readers of the status must not wait
	now    *invocation // the one that runs or ran last; nil before the first
	status supervise.Status

	counted *invocation // the one whose end the status has
}

const (
	startWithin = 30 * time.Second // bounds a start, to the exec of the program
	killWithin  = 10 * time.Second // for the end of a service after its stop time-out
)

// awaitsReady reports whether the start of a service ends with READY=1.
func awaitsReady(s supervise.Spec, once bool) bool { return s.Notify && !once }

// Start starts the service, or adopts the one that runs.
func (u *unit) Start() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	if u.last().alive() {
		return true, nil
	}
	if adopted, err := u.adopt(); adopted || err != nil {
		return adopted, err
	}
	return false, errors.Join(u.before.Stop(), u.start())
}

// Adopt adopts the service that runs, and starts none.
func (u *unit) Adopt() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	if u.last().alive() {
		return true, nil
	}
	return u.adopt()
}

// last returns the invocation that runs or ran last, or nil.
func (u *unit) last() *invocation {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.now
}

// adopt adopts the service if its process runs. The caller holds changing.
func (u *unit) adopt() (bool, error) {
	s, err := u.of.bus.state(u.name)
	if err != nil || !s.runs() {
		return false, err
	}
	if err := u.of.bus.hold(u.name); err != nil {
		return false, ignore(err, noSuchUnit)
	}
	u.follow(s)
	return true, nil
}

// start creates the service anew, and returns after the exec of its program.
func (u *unit) start() error {
	if u.taken != nil {
		return u.startTaken()
	}
	if err := u.of.bus.clear(u.name, u.spec.StopWithin()); err != nil {
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
		return errors.Join(err, u.of.bus.clear(u.name, u.spec.StopWithin()))
	}
	u.follow(s)
	return nil
}

// create has systemd create and start the service.
func (u *unit) create() error {
	if err := supervise.Own(u.spec.Dir, u.spec.Sandbox.GetUser()); err != nil {
		return err
	}
	out, err := supervise.OpenOutput(u.spec.Output) // a file that systemd creates is readable for all
	if err != nil {
		return err
	}
	_ = out.Close()
	input, err := inputOf(u.spec)
	if err != nil {
		return err
	}
	if input != nil {
		defer func() { _ = input.Close() }()
	}
	bursts := u.of.policy.CrashLoop
	if u.Status().CrashLoop {
		bursts = 1
	}
	properties, err := settings{u.spec, u.of.policy, u.of.shim, u.once, bursts}.properties(input)
	if err != nil {
		return err
	}
	// systemd drops a cleared service a moment later.
	return eventually(startWithin, func() (bool, error) {
		err := u.of.bus.startTransient(u.name, properties)
		return !isError(err, unitExists), ignore(err, unitExists)
	})
}

// inputOf returns the standard input that holds the agent's sockets, or nil.
func inputOf(s supervise.Spec) (*os.File, error) {
	if s.Sockets == nil {
		return nil, nil
	}
	names, files, err := s.Sockets()
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

// started waits for the exec of the program, and returns the state of the service then. It may have ended again.
func (u *unit) started() (s state, err error) {
	err = eventually(startWithin, func() (bool, error) {
		if s, err = u.of.bus.state(u.name); err != nil {
			return false, err
		}
		switch {
		case s.runs():
			return s.active == "active" || awaitsReady(u.spec, u.once), nil
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

// Stop ends the service and all that it started.
func (u *unit) Stop() error {
	u.Leave()
	u.changing.Lock()
	defer u.changing.Unlock()
	end := func() error { return u.of.bus.clear(u.name, u.spec.StopWithin()) }
	if u.taken != nil {
		end = u.stopTaken
	}
	if err := errors.Join(end(), u.before.Stop()); err != nil {
		return fmt.Errorf("stop %s: %w", u.spec.Name, err)
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.now, u.counted, u.status = nil, nil, supervise.Status{}
	return nil
}

// clear stops a service and makes systemd drop it, if there is one.
func (b *bus) clear(name string, within time.Duration) error {
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

// Fail stops the service because its health check fails. systemd does not restart what was stopped, so the executor
// does. An adopted service is left alone.
func (u *unit) Fail(why string, since time.Time) {
	i := u.last()
	if u.taken != nil || !i.alive() || !i.failing.Note(why, since) {
		return
	}
	if err := u.of.bus.stop(u.name); err != nil {
		u.log.Error().Err(err).Msg("agent with a failed health check not ended")
	}
}

// Signal sends a signal to the main process.
func (u *unit) Signal(s syscall.Signal) error { return u.of.bus.signal(u.name, int32(s)) }

// Exited returns a channel that is closed when the current process has ended.
func (u *unit) Exited() <-chan struct{} {
	if i := u.last(); i != nil {
		return i.exited
	}
	return supervise.Closed
}

// Ready returns a channel that is closed when the current process sent READY=1.
func (u *unit) Ready() <-chan struct{} {
	if i := u.last(); i != nil {
		return i.ready
	}
	return nil
}

// SetReady does nothing: systemd remembers READY=1.
func (u *unit) SetReady() error { return nil }

// SetEnv replaces the environment of the executor's next start; restarts by systemd keep the one before.
func (u *unit) SetEnv(env []string) {
	u.changing.Lock()
	defer u.changing.Unlock()
	u.spec.Env = env
}

// Status returns the current status.
func (u *unit) Status() supervise.Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.status
	switch {
	case u.now == nil:
	case u.now.alive():
		return u.of.policy.Runs(s, u.now.pid, u.now.startedAt, time.Now())
	case !s.Disabled && u.now != u.counted:
		s.LastEnd = u.now.failing.End(u.now.how, u.now.startedAt).How
	}
	return s
}

// eventually polls until done, ever less often, and for at most within.
func eventually(within time.Duration, done func() (bool, error)) error {
	end := time.Now().Add(within)
	for wait := 2 * time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("systemd did not finish within %s", within)
		}
		time.Sleep(wait)
	}
}
