package supervise

import (
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"
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

// Unit runs the process of one slot. Its methods may be called from any goroutine.
type Unit struct {
	spec    Spec
	policy  Policy
	log     zerolog.Logger
	changed func() // called, without any lock, when Status changed by itself

	mu      sync.Mutex
	proc    *process
	status  Status
	keeping chan struct{} // closed to stop keeping; nil when not kept
	kept    chan struct{} // closed when the keeper has returned
}

// NewUnit gives a unit that does nothing yet. changed must not block.
func NewUnit(s Spec, p Policy, log zerolog.Logger, changed func()) *Unit {
	return &Unit{spec: s, policy: p, log: log, changed: changed}
}

// Start starts the process, or takes over the one that an earlier executor started. It
// is not restarted when it ends, until Keep.
func (u *Unit) Start() (adopted bool, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.alive() {
		return true, nil
	}
	p, adopted, err := open(u.spec)
	if p != nil {
		u.proc = p
		go u.boundOutput(p.exited)
		u.status.Pid, u.status.StartedAt = p.Pid, p.StartedAt
	}
	return adopted, err
}

func (u *Unit) alive() bool {
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
func (u *Unit) Exited() <-chan struct{} {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.proc == nil {
		ended := make(chan struct{})
		close(ended)
		return ended
	}
	return u.proc.exited
}

// Spec gives what the unit runs.
func (u *Unit) Spec() Spec { return u.spec }

// SetEnv replaces the environment of the next start.
func (u *Unit) SetEnv(env []string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.spec.Env = env
}

// Status gives how it is now.
func (u *Unit) Status() Status {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.status
	if !u.alive() {
		s.Pid = 0
		if u.proc != nil {
			s.LastEnd = u.proc.how
		}
	}
	return s
}

// Keep restarts the process from now on whenever it ends, until Stop or Leave.
func (u *Unit) Keep() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.keeping != nil {
		return
	}
	u.keeping, u.kept = make(chan struct{}), make(chan struct{})
	go u.keep(u.keeping, u.kept)
}

// Stop ends the process for good and deletes its record.
func (u *Unit) Stop() error {
	u.Leave()
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.find(); err != nil {
		return err
	}
	if u.proc != nil {
		if err := u.proc.stop(u.spec.StopTimeout); err != nil {
			return fmt.Errorf("stop %s: %w", u.spec.Name, err)
		}
	}
	u.proc, u.status = nil, Status{}
	return removeRecord(u.spec.Record)
}

// find takes over a process that runs and was not looked for yet.
func (u *Unit) find() error {
	if u.proc != nil {
		return nil
	}
	r, ok, err := readRecord(u.spec.Record)
	if !ok || err != nil {
		return err
	}
	if found, runs := r.find(); runs {
		u.proc = adopt(found)
	} else {
		r.killGroup()
	}
	return nil
}

// Leave stops keeping the process, and does not touch it.
func (u *Unit) Leave() {
	u.mu.Lock()
	keeping, kept := u.keeping, u.kept
	u.keeping = nil
	u.mu.Unlock()
	if keeping != nil {
		close(keeping)
		<-kept
	}
}

func (u *Unit) keep(stop, done chan struct{}) {
	defer close(done)
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
func (u *Unit) restart(stop chan struct{}) bool {
	wait := u.ended()
	u.changed()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-stop:
		return false
	case <-timer.C:
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
func (u *Unit) ended() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := &u.status
	if u.proc != nil {
		s.LastEnd = u.proc.how
	}
	if time.Since(s.StartedAt) >= u.policy.Steady {
		s.Restarts = 0
	}
	s.Restarts++
	s.CrashLoop = s.Restarts >= u.policy.CrashLoop
	wait := u.policy.wait(s.Restarts)
	u.log.Warn().Str("reason", s.LastEnd).Int("count", s.Restarts).Dur("wait", wait).Msg("agent ended")
	return wait
}

func (p Policy) wait(restarts int) time.Duration {
	if restarts >= p.CrashLoop {
		return p.Resting
	}
	return min(p.Longest, p.First<<min(restarts-1, 20))
}
