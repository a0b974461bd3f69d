package presence

import "time"

const (
	// beatsASecond bounds the beats of all servers together: beyond it each beats less often.
	beatsASecond = 400
	// longestSpacing is the longest time between two beats: what only a beat says is never older.
	longestSpacing = time.Minute
	// slack is how many intervals less often than due a server may beat: it is not asked for each change of the fleet,
	// and not by two replicas in turn that count it differently.
	slack = 2
	// askedFor is how long a server whose connection ended has to answer before it counts as late.
	askedFor = time.Second / 2
)

// Spacing returns how often each of a number of servers shall beat: every interval, or less often, in whole intervals,
// where there would be more than beatsASecond.
func Spacing(interval time.Duration, servers int) time.Duration {
	due := time.Duration(servers) * time.Second / beatsASecond
	return max(interval, min((due+interval-1)/interval*interval, longestSpacing))
}

// LongestSpacing returns how rarely a server may beat where a spacing is due.
func LongestSpacing(interval, spacing time.Duration) time.Duration {
	if spacing == interval {
		return interval
	}
	return spacing + slack*interval
}

// Says returns the time between two beats that a beat names, within what is due or was asked for: a server cannot put
// off being called offline.
func (b Beat) Says(every, interval, spacing time.Duration) time.Duration {
	return max(0, min(every, max(LongestSpacing(interval, spacing), b.AskedFor)))
}

// every returns how often the server beats: as its last beat said, or as it was asked to, whichever is less often: the
// beat that says so may be lost.
func (b Beat) every(interval time.Duration) time.Duration { return max(interval, b.Every, b.AskedFor) }

// Ask returns how often a server shall beat that beats differently, and 0 for one that need not be asked. Two machines
// that may have one identity beat at the interval, so that both are soon noticed. What a server did not do is asked
// again after a while: the question may be lost, or its settings forbid it.
func (b Beat) Ask(said, interval, spacing time.Duration) time.Duration {
	if b.Sessions.Suspect() {
		spacing = interval
	}
	said = max(said, interval)
	switch {
	case said >= spacing && said <= LongestSpacing(interval, spacing):
		return 0
	case b.AskedFor == spacing && b.At.Sub(b.Asked) < longestSpacing:
		return 0
	}
	return spacing
}
