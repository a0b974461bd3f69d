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

// Policy says how kept processes are restarted and how much output is kept.
type Policy struct {
	First       time.Duration // the first wait before a restart; it doubles
	Longest     time.Duration // the longest wait
	Steady      time.Duration // up for this long, a process counts as well again
	CrashLoop   int           // so many ends in a row, none of them steady, are a crash loop
	Resting     time.Duration // the wait between tries in a crash loop
	OutputBytes int64         // an output file is cut at this size
}

// DefaultPolicy is for production.
var DefaultPolicy = Policy{
	First: time.Second, Longest: time.Minute, Steady: time.Minute,
	CrashLoop: 5, Resting: 5 * time.Minute, OutputBytes: 4 << 20,
}

// Status is how a unit is.
type Status struct {
	Pid       int // 0: it does not run
	StartedAt time.Time
	Restarts  int    // in a row
	CrashLoop bool   // it keeps ending
	LastEnd   string // how it last ended, or empty
}

// unit is a Unit whose process we start ourselves.
type unit struct {
	spec    Spec
	policy  Policy
	log     zerolog.Logger
	changed func() // called, without any lock, when Status changed by itself

	keeper Keeper

	changing sync.Mutex // held by a start and a stop, which may take as long as the process does to end

	mu     sync.Mutex // held to look, and never for long: whoever asks how it is must not wait
	proc   *process
	status Status
}

// newUnit gives a unit that does nothing yet. changed must not block.
func newUnit(s Spec, p Policy, log zerolog.Logger, changed func()) *unit {
	return &unit{spec: s, policy: p, log: log, changed: changed}
}

// Start starts the process, or takes over the one that an earlier executor started. It
// is not restarted when it ends, until Keep.
func (u *unit) Start() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	u.mu.Lock()
	runs := u.alive()
	u.mu.Unlock()
	if runs {
		return true, nil
	}
	p, adopted, err := open(u.spec, u.log)
	u.mu.Lock()
	defer u.mu.Unlock()
	if p != nil {
		u.proc = p
		go u.policy.BoundOutput(u.spec.Output, p.exited, u.log)
		u.status.Pid, u.status.StartedAt = p.Pid, p.StartedAt
	}
	return adopted, err
}

// Adopt takes over the process that an earlier executor started, and starts none.
func (u *unit) Adopt() (adopted bool, err error) {
	u.changing.Lock()
	defer u.changing.Unlock()
	u.mu.Lock()
	runs := u.alive()
	u.mu.Unlock()
	if runs {
		return true, nil
	}
	p, err := u.find()
	if p == nil || err != nil {
		return false, err
	}
	go u.policy.BoundOutput(u.spec.Output, p.exited, u.log)
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.alive(), nil
}

func (u *unit) alive() bool {
	if u.proc == nil {
		return false
	}
	select {
	case <-u.proc.exited:
		return false
	default:
		return true
	}
}

// Exited is closed when the process that runs now has ended.
func (u *unit) Exited() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.proc == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return u.proc.exited
}

// Ready is closed when the record says that the process that runs now was ready, and nil
// otherwise: READY=1 goes to the NOTIFY_SOCKET that the process was given.
func (u *unit) Ready() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.proc == nil || !u.alive() || !u.proc.ready.Load() {
		return nil
	}
	said := make(chan struct{})
	close(said)
	return said
}

// SetReady keeps in the record that the process that runs now was ready.
func (u *unit) SetReady() error {
	u.changing.Lock()
	defer u.changing.Unlock()
	u.mu.Lock()
	p := u.proc
	u.mu.Unlock()
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

// Signal sends a signal to the process.
func (u *unit) Signal(s syscall.Signal) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.alive() {
		return nil
	}
	if _, runs := u.proc.find(); !runs {
		return nil
	}
	if err := unix.Kill(u.proc.Pid, s); err != nil && !errors.Is(err, unix.ESRCH) {
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

// Status gives how it is now.
func (u *unit) Status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.status
	switch {
	case !u.alive():
		s.Pid = 0
		if u.proc != nil {
			s.LastEnd = u.proc.how
		}
	case time.Since(s.StartedAt) >= u.policy.Steady:
		s.CrashLoop = false
	}
	return s
}

// Keep restarts the process from now on whenever it ends, until Stop or Leave.
func (u *unit) Keep() { u.keeper.Keep(u.keep) }

// Leave stops keeping the process, and does not touch it.
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
		if err := p.stop(u.spec.StopTimeout); err != nil {
			return fmt.Errorf("stop %s: %w", u.spec.Name, err)
		}
	}
	u.setProcess(nil, Status{})
	return removeRecord(u.spec.Record)
}

// find gives the process, and takes over one that runs and was not looked for yet.
func (u *unit) find() (*process, error) {
	u.mu.Lock()
	p := u.proc
	u.mu.Unlock()
	if p != nil {
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
	p = adopt(found)
	u.setProcess(p, Status{Pid: p.Pid, StartedAt: p.StartedAt})
	return p, nil
}

func (u *unit) setProcess(p *process, s Status) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.proc, u.status = p, s
}

func (u *unit) keep(stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-u.Exited():
			if !u.restart(stop) {
				return
			}
		}
	}
}

// restart starts an ended process again after its back-off. It gives false when it was stopped meanwhile.
func (u *unit) restart(stop <-chan struct{}) bool {
	wait := u.ended()
	u.changed()
	if !Pause(stop, wait) || !u.spec.Held(stop) {
		return false
	}
	if _, err := u.Start(); err != nil {
		u.mu.Lock()
		u.status.LastEnd = err.Error()
		u.mu.Unlock()
		u.log.Error().Err(err).Msg("agent not restarted")
		return true
	}
	u.log.Info().Msg("agent restarted")
	u.changed()
	return true
}

// ended counts an end and gives how long to wait before the next start.
func (u *unit) ended() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	how := u.status.LastEnd
	if u.proc != nil {
		how = u.proc.how
	}
	wait := u.policy.Ended(&u.status, how, u.status.StartedAt)
	u.log.Warn().Str("reason", how).Int("count", u.status.Restarts).Dur("wait", wait).Msg("agent ended")
	return wait
}

// Wait says how long to wait before the next start after so many ends in a row.
func (p Policy) Wait(restarts int) time.Duration {
	if restarts >= p.CrashLoop {
		return p.Resting
	}
	return min(p.Longest, p.First<<min(restarts-1, 20))
}
