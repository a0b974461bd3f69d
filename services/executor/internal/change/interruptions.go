package change

// An executor that ended without being stopped may have been taken down by what the change runs, and the machine with
// it. So an interrupted change is resumed a bounded number of times: the journal counts its interruptions before
// anything of it runs again.

const (
	// MaxCrashes is how many interruptions a change survives while the new version may run. Then it is rolled back.
	MaxCrashes = 2
	// MaxInterruptions is how many it survives in other states, which run nothing new.
	MaxInterruptions = 10
)

// Interruptions counts how often the executor ended during a change.
type Interruptions struct {
	Crashes int `json:"crashes,omitempty"` // without being stopped, while the new version or its rehearsal may have run
	Others  int `json:"others,omitempty"`
}

// Interrupt counts that the executor ended during the change. One that was stopped counts only where the new version
// may run, and then as one of MaxInterruptions: the version may be what stops it.
func (r *Record) Interrupt() {
	stopped, runsNew := r.Stopped, r.runsNew(r.state())
	r.Stopped = false
	switch {
	case runsNew && !stopped:
		r.Interruptions.Crashes++
	case runsNew || !stopped:
		r.Interruptions.Others++
	}
}

// runsNew reports whether the new version, or its rehearsal, may run in a state. A trial of the executor's own program
// is not repeated, and its starts are counted beside the journal.
func (r *Record) runsNew(at State) bool {
	switch at {
	case Rehearsing:
		return true
	case Switching, HealthChecking, Committing:
		return !r.To.IsSelf()
	}
	return false
}

// exhausted reports whether a change was interrupted too often to be resumed in a state.
func (r *Record) exhausted(at State) bool {
	return r.Interruptions.Others >= MaxInterruptions || r.runsNew(at) && r.Interruptions.Crashes >= MaxCrashes
}
