package presence

import "time"

const (
	// beatsASecond bounds the beats of all servers together: beyond it each beats less often.
	beatsASecond = 400
	// longestSpacing is the longest time between two beats: what only a beat says is never older.
	longestSpacing = time.Minute
	// askedFor is how long a server whose connection ended has to answer before it counts as late.
	askedFor = time.Second / 2
)

// Spacing returns how often each of a number of servers shall beat: every interval, or less often, in whole intervals,
// where there would be more than beatsASecond. It rises at once, and falls when that saves a server two intervals, so
// that a fleet whose size varies a little is not asked again and again.
func Spacing(before, interval time.Duration, servers int) time.Duration {
	due := time.Duration(servers) * time.Second / beatsASecond
	next := max(interval, min((due+interval-1)/interval*interval, longestSpacing))
	if next < before && before-next < 2*interval && before <= longestSpacing {
		return before
	}
	return next
}

// Bounded returns the interval that a beat names, at most the longest that is ever asked for: a server cannot put off
// being called offline.
func Bounded(every, interval time.Duration) time.Duration {
	return max(0, min(every, max(interval, longestSpacing)))
}

// NextSpacing returns how often a server shall beat that beats differently, and 0 for one that need not be asked. Two
// machines that may have one identity beat at the interval, so that both are soon noticed.
func (b Beat) NextSpacing(interval, spacing time.Duration) time.Duration {
	if len(b.Sessions) > 1 {
		spacing = interval
	}
	if b.Every == 0 || max(b.Every, interval) == spacing {
		return 0
	}
	return spacing
}
