package supervise

import (
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
)

// unit is a Unit whose process the executor starts itself.
type unit struct {
	spec    Spec
	policy  Policy
	log     zerolog.Logger
	changed func() // called, without any lock, when Status changed by itself

	keeper Keeper

	changing sync.Mutex // held by a start and a stop, which may take as long as the process takes to end

	mu     sync.Mutex // never held for long: readers of the status must not wait
	proc   *process   // the process that runs or ran last; nil before the first
	status Status
}

// newUnit returns a unit that does nothing yet. changed must not block.
func newUnit(s Spec, p Policy, log zerolog.Logger, changed func()) *unit {
	return &unit{spec: s, policy: p, log: log, changed: changed}
}

// Start starts the process, or adopts the one that an earlier executor started.
func (u *unit) Start() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	if u.last().alive() {
		return true, nil
	}
	p, adopted, err := open(u.spec, u.log)
	if p != nil {
		u.follow(p)
	}
	return adopted, err
}

// Adopt adopts the process that an earlier executor started, and starts none.
func (u *unit) Adopt() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	if u.last().alive() {
		return true, nil
	}
	p, err := u.find()
	if p == nil || err != nil {
		return false, err
	}
	return p.alive(), nil
}

// last returns the process that runs or ran last, or nil.
func (u *unit) last() *process {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.proc
}

// follow makes a process the unit's own.
func (u *unit) follow(p *process) {
	u.mu.Lock()
	u.proc = p
	u.mu.Unlock()
	go u.policy.BoundOutput(u.spec.Output, p.exited, u.log)
}

// Exited returns a channel that is closed when the current process has ended.
func (u *unit) Exited() <-chan struct{} {
	if p := u.last(); p != nil {
		return p.exited
	}
	return Closed
}

// Closed is a closed channel.
var Closed = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Ready returns a closed channel when the record says that the current process was ready, and nil otherwise: READY=1
// goes to the NOTIFY_SOCKET that the process was given.
func (u *unit) Ready() <-chan struct{} {
	if p := u.last(); p.alive() && p.ready.Load() {
		return Closed
	}
	return nil
}

// SetReady writes to the record that the current process was ready.
func (u *unit) SetReady() error {
	u.changing.Lock()
	defer u.changing.Unlock()
	p := u.last()
	if p == nil || p.ready.Load() {
		return nil
	}
	r := p.record
	r.Ready = true
	if err := r.write(u.spec.Record); err != nil {
		return err
	}
	p.ready.Store(true)
	return nil
}

// Signal sends a signal to the process, if one runs.
func (u *unit) Signal(s syscall.Signal) error {
	p := u.last()
	if !p.alive() {
		return nil
	}
	if _, runs := p.find(); !runs {
		return nil
	}
	if err := unix.Kill(p.Pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("send %v to %s: %w", s, u.spec.Name, err)
	}
	return nil
}

// SetEnv replaces the environment of the next start.
func (u *unit) SetEnv(env []string) {
	u.changing.Lock()
	defer u.changing.Unlock()
	u.spec.Env = env
}

// Status returns the current status.
func (u *unit) Status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.status
	switch {
	case u.proc == nil:
	case u.proc.alive():
		return u.policy.Runs(s, u.proc.Pid, u.proc.StartedAt, time.Now())
	default:
		s.StartedAt, s.LastEnd = u.proc.StartedAt, u.proc.how
	}
	return s
}

// Keep restarts the process whenever it ends, until Stop or Leave.
func (u *unit) Keep() { u.keeper.Keep(u.keep) }

// Leave stops keeping the process, and does not end it.
func (u *unit) Leave() { u.keeper.Leave() }

// Stop ends the process for good and deletes its record.
func (u *unit) Stop() error {
	u.Leave()
	u.changing.Lock()
	defer u.changing.Unlock()
	p, err := u.find()
	if err != nil {
		return err
	}
	if p != nil {
		if err := p.stop(u.spec.StopWithin()); err != nil {
			return fmt.Errorf("stop %s: %w", u.spec.Name, err)
		}
	}
	u.mu.Lock()
	u.proc, u.status = nil, Status{}
	u.mu.Unlock()
	return removeRecord(u.spec.Record)
}

// find returns the process, and adopts one that runs and was not looked for yet. Without one it kills what is left of
// the recorded start.
func (u *unit) find() (*process, error) {
	if p := u.last(); p != nil {
		return p, nil
	}
	r, ok, err := readRecord(u.spec.Record)
	if !ok || err != nil {
		return nil, err
	}
	found, runs := r.find()
	if !runs {
		_, err := r.endRest(killWithin)
		return nil, err
	}
	p := adopt(found)
	u.follow(p)
	return p, nil
}

// keep is the restart loop.
func (u *unit) keep(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-u.Exited():
		}
		wait := u.ended()
		u.changed()
		if !Pause(stop, wait) || !u.spec.Held(stop) {
			return
		}
		if _, err := u.Start(); err != nil {
			u.failed(err)
			continue
		}
		u.log.Info().Msg("agent restarted")
		u.changed()
	}
}

func (u *unit) failed(err error) {
	u.mu.Lock()
	u.status.LastEnd = err.Error()
	u.mu.Unlock()
	u.log.Error().Err(err).Msg("agent not restarted")
}

// ended counts an end and returns the wait before the next start.
func (u *unit) ended() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	how, started := u.status.LastEnd, u.status.StartedAt
	if u.proc != nil {
		how, started = u.proc.how, u.proc.StartedAt
	}
	wait := u.policy.Ended(&u.status, how, started, time.Now())
	u.log.Warn().Str("reason", how).Int("count", u.status.Restarts).Dur("wait", wait).Msg("agent ended")
	return wait
}
