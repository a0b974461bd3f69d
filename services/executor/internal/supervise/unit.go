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
	starts  *starts
	policy  Policy
	log     zerolog.Logger
	changed func() // called, without any lock, when Status changed by itself

	keeper Keeper

	changing sync.Mutex // held by a start and a stop, which may take as long as the process takes to end

	mu     sync.Mutex // never held for long: readers of the status must not wait
	proc   *process   // the process that runs or ran last; nil before the first
	status Status

	counted *process // the process whose end the status has
}

// newUnit returns a unit that does nothing yet. changed must not block.
func (st *starts) newUnit(s Spec, p Policy, log zerolog.Logger, changed func()) *unit {
	return &unit{spec: s, starts: st, policy: p, log: log, changed: changed}
}

// Start starts the process, or adopts the one that an earlier executor started.
func (u *unit) Start() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	if p := u.last(); p.alive() {
		return true, p.recordAgain(u.spec.Record)
	}
	p, adopted, err := u.starts.open(u.spec, u.log)
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

// Fail ends the process because its health check fails.
func (u *unit) Fail(why string, since time.Time) {
	p := u.last()
	if !p.alive() || !p.failing.Note(why, since) {
		return
	}
	go func() {
		if err := p.stop(u.spec.StopWithin()); err != nil {
			u.log.Error().Err(err).Msg("agent with a failed health check not ended")
		}
	}()
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
		s.StartedAt = u.proc.StartedAt
		if u.proc != u.counted {
			s.LastEnd = u.proc.failing.End(u.proc.how, u.proc.StartedAt).How
		}
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
	u.proc, u.counted, u.status = nil, nil, Status{}
	u.mu.Unlock()
	return removeRecord(u.spec.Record)
}

// find returns the process, and adopts one that runs and was not looked for yet. Without one it ends what is left of
// the recorded start, or what runs without a record.
func (u *unit) find() (*process, error) {
	if p := u.last(); p != nil {
		return p, nil
	}
	r, ok, err := readRecord(u.spec.Record)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, u.starts.endLost(u.spec)
	}
	found, runs := r.find()
	if !runs {
		_, err := r.endRest(killWithin)
		return nil, err
	}
	p := u.starts.adopt(found)
	u.follow(p)
	return p, nil
}

// keep is the restart loop.
func (u *unit) keep(stop <-chan struct{}) {
	var notStarted error
	for {
		select {
		case <-stop:
			return
		case <-u.Exited():
		}
		cause := u.spec.CauseNow()
		wait := u.ended(notStarted, cause)
		u.changed()
		if !u.policy.Pause(stop, wait, cause, u.log) || !u.spec.Held(stop) {
			return
		}
		if _, notStarted = u.Start(); notStarted != nil {
			u.log.Error().Err(notStarted).Msg("agent not restarted")
			continue
		}
		u.log.Info().Msg("agent restarted")
		u.changed()
	}
}

// ended counts the end of a process, or a start that failed, and returns the wait before the next start.
func (u *unit) ended(notStarted error, c Cause) time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	e := End{How: u.status.LastEnd, Started: now}
	switch {
	case notStarted != nil:
		e.How = notStarted.Error()
	case u.proc != nil:
		e = u.proc.failing.End(u.proc.how, u.proc.StartedAt)
	}
	e.How, u.counted = c.Because(e.How), u.proc
	wait := u.policy.Ended(&u.status, e, now)
	u.log.Warn().Str("reason", e.How).Int("count", u.status.Restarts).Dur("wait", wait).Msg("agent ended")
	return wait
}
