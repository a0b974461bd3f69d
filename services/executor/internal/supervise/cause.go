package supervise

import (
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

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
