package supervise

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

// Policy is the restart policy of kept processes, and the bound of their output. It is pure: callers pass the time.
type Policy struct {
	First       time.Duration // the wait before the first restart; it doubles with each further one
	Longest     time.Duration // the longest of these waits
	Steady      time.Duration // a process that ran this long starts again with First
	CrashLoop   int           // this many ends in a row, each before Steady, are a crash loop
	OutputBytes int64         // an output file is cut soon after it has this size
}

// DefaultPolicy is for production.
var DefaultPolicy = Policy{
	First: time.Second, Longest: 5 * time.Minute, Steady: time.Minute, CrashLoop: 5, OutputBytes: 4 << 20,
}

// Status is the state of a unit.
type Status struct {
	Pid       int // 0: no process runs
	StartedAt time.Time
	Restarts  int    // in a row
	CrashLoop bool   // it keeps ending
	LastEnd   string // how it last ended, or empty
	Disabled  bool   // it was stopped and disabled on the server, so it is not started; LastEnd says more

	NextStart    time.Time // when a process that ended is started again; zero when none is due
	FailingSince time.Time // the first of the ends in a row
}

// End is how a process ended.
type End struct {
	How     string
	Started time.Time
	Failed  time.Time // since when its health check had failed, when it was ended for that; zero otherwise
}

// Ended counts into a status that a process has ended at a time, and returns the wait before the next start. It doubles
// with each end in a row, and is never longer than the process has been failing: a cause that lasted for a minute costs
// no more than another minute.
func (p Policy) Ended(s *Status, e End, at time.Time) time.Duration {
	s.LastEnd = e.How
	fine := at
	if !e.Failed.IsZero() {
		fine = e.Failed
	}
	if p.isSteady(e.Started, fine) {
		s.Restarts = 0
	}
	if s.Restarts == 0 {
		s.FailingSince = at
	}
	s.Restarts++
	s.CrashLoop = s.Restarts >= p.CrashLoop
	wait := min(p.Longest, p.First<<min(s.Restarts-1, 20), at.Sub(s.FailingSince))
	wait = max(wait, p.First)
	s.NextStart = at.Add(wait)
	return wait
}

// Runs returns the status of a process that runs since started.
func (p Policy) Runs(s Status, pid int, started, at time.Time) Status {
	s.Pid, s.StartedAt, s.NextStart = pid, started, time.Time{}
	s.CrashLoop = s.CrashLoop && !p.isSteady(started, at)
	return s
}

func (p Policy) isSteady(started, at time.Time) bool { return at.Sub(started) >= p.Steady }

// Cause is what keeps an ended process from running now, as far as that is known. The zero value is unknown.
type Cause struct {
	What string      // in words; empty for what is only a guess
	Gone func() bool // reports whether it is gone
}

// CauseNow returns what keeps the process from running now, as far as that is known.
func (s *Spec) CauseNow() Cause {
	if s.Cause == nil {
		return Cause{}
	}
	return s.Cause()
}

// Because returns how a process ended, with the cause.
func (c Cause) Because(how string) string {
	if c.What == "" {
		return how
	}
	return how + "; " + c.What
}

// Pause waits for the next start: until the wait is over, or the cause is gone and Policy.First over. It returns false
// when stop is closed before.
func (p Policy) Pause(stop <-chan struct{}, wait time.Duration, c Cause, log zerolog.Logger) bool {
	if c.Gone == nil {
		return Pause(stop, wait)
	}
	for end := time.Now().Add(wait); time.Now().Before(end); {
		if !Pause(stop, min(p.First, time.Until(end))) {
			return false
		}
		if time.Now().Before(end) && c.Gone() {
			log.Info().Str("reason", c.What).Msg("cause of the end is gone; agent started at once")
			return true
		}
	}
	return true
}

// failure is why a process is ended: its health check failed.
type failure struct {
	why   string
	since time.Time
}

// Failing notes why the process of a unit is being ended. The zero value notes nothing.
type Failing struct{ is atomic.Pointer[failure] }

// Note notes that the health check of a process has failed since a time, and reports whether it is the first to say so.
func (f *Failing) Note(why string, since time.Time) (first bool) {
	return f.is.CompareAndSwap(nil, &failure{why, since})
}

// End returns how a process ended, with what was noted.
func (f *Failing) End(how string, started time.Time) End {
	e := End{How: how, Started: started}
	if is := f.is.Load(); is != nil {
		e.How, e.Failed = is.why+", so it was ended: "+how, is.since
	}
	return e
}
