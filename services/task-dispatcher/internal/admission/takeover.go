package admission

import "time"

// Situation is what a process knows about the leader, the process that opens tasks and moves them out of the queue.
type Situation struct {
	Leads    bool   // this process is the leader, under its own claim
	Led      bool   // the last claim is this process's own, whether or not it relies on it
	Claim    uint64 // the sequence of the last claim; 0 before the first one
	Progress uint64 // the sequence of the last fact with which a leader moved a task, or claimed
	Work     bool   // a task could be opened, or a queued one moved, now
}

// TakeOver decides when a process takes over as the leader: when there is work and the leader was
// idle for After. It does not wait when there can be no leader: when nothing was ever claimed, when
// the last claim is its own and it no longer relies on it, or when no progress was made since
// this process started.
type TakeOver struct {
	After time.Duration

	begun    bool
	first    uint64    // the progress at the first call
	progress uint64    // the progress that since belongs to
	since    time.Time // since when there is work and no progress; zero without work
}

// Due reports whether to take over now, and if not, how long until then; 0 when there is nothing to
// wait for.
func (p *TakeOver) Due(s Situation, now time.Time) (left time.Duration, due bool) {
	if !p.begun {
		p.begun, p.first = true, s.Progress
	}
	if s.Leads || !s.Work {
		p.since = time.Time{}
		return 0, false
	}
	if s.Claim == 0 || s.Led || s.Progress == p.first {
		return 0, true
	}
	if p.since.IsZero() || s.Progress != p.progress {
		p.since, p.progress = now, s.Progress
	}
	left = p.After - now.Sub(p.since)
	return max(left, 0), left <= 0
}
