package supervise

import "time"

// Policy is the restart policy of kept processes, and the bound of their output. It is pure: callers pass the time.
type Policy struct {
	First       time.Duration // the wait before the first restart; it doubles with each further one
	Longest     time.Duration // the longest of these waits
	Steady      time.Duration // a process that ran this long starts again with First
	CrashLoop   int           // this many ends in a row, each before Steady, are a crash loop
	Resting     time.Duration // the wait between tries in a crash loop
	OutputBytes int64         // an output file is cut soon after it has this size
}

// DefaultPolicy is for production.
var DefaultPolicy = Policy{
	First: time.Second, Longest: time.Minute, Steady: time.Minute,
	CrashLoop: 5, Resting: 5 * time.Minute, OutputBytes: 4 << 20,
}

// Status is the state of a unit.
type Status struct {
	Pid       int // 0: no process runs
	StartedAt time.Time
	Restarts  int    // in a row
	CrashLoop bool   // it keeps ending
	LastEnd   string // how it last ended, or empty
	Disabled  bool   // it was stopped and disabled on the server, so it is not started; LastEnd says more

	NextStart time.Time // when a process that keeps ending is started again; zero when none is due
}

// Ended counts into a status that a process which ran from started to at has ended, and returns the wait before the
// next start.
func (p Policy) Ended(s *Status, how string, started, at time.Time) time.Duration {
	s.LastEnd = how
	if p.isSteady(started, at) {
		s.Restarts = 0
	}
	s.Restarts++
	s.CrashLoop = s.Restarts >= p.CrashLoop
	wait := p.wait(s.Restarts)
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

// wait returns the wait before the next start after so many ends in a row.
func (p Policy) wait(restarts int) time.Duration {
	if restarts >= p.CrashLoop {
		return p.Resting
	}
	return min(p.Longest, p.First<<min(restarts-1, 20))
}
