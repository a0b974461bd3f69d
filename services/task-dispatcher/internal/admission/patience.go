package admission

import "time"

// Outlook is what a process that may take over sees of who moves queued tasks on.
type Outlook struct {
	Held     bool   // this process does, under its own claim
	Mine     bool   // the last claim is its own
	Claim    uint64 // the sequence of the last claim; 0 when there is none
	Progress uint64 // the last fact that somebody did it with, or claimed it
	Work     bool   // there is a queued task that could be moved on now
}

// Patience decides when a process takes over: when there is something to do and nobody
// has done anything for Most. It does not wait when nobody can be there: when there is
// no claim, when the last one is its own and it does not rely on it any more, or when
// since its start nothing moved at all.
type Patience struct {
	Most time.Duration

	begun    bool
	first    uint64    // the progress at its first look
	progress uint64    // what since belongs to
	since    time.Time // since when there was work and no progress; zero when there is no work
}

// Left says whether it is time to take over, and if not, how long until then; 0 when
// nothing is to be waited for.
func (p *Patience) Left(o Outlook, now time.Time) (left time.Duration, due bool) {
	if !p.begun {
		p.begun, p.first = true, o.Progress
	}
	if o.Held || !o.Work {
		p.since = time.Time{}
		return 0, false
	}
	if o.Claim == 0 || o.Mine || o.Progress == p.first {
		return 0, true
	}
	if p.since.IsZero() || o.Progress != p.progress {
		p.since, p.progress = now, o.Progress
	}
	left = p.Most - now.Sub(p.since)
	return max(left, 0), left <= 0
}
