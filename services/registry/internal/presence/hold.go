package presence

import "time"

const (
	// holdAbove is how many servers must be silent at once before the cause is sought elsewhere.
	holdAbove = 10
	// holdShare is the share of the online servers that must be silent for that: one in five.
	holdShare = 5
)

// Hold says that a large share of the online servers fell silent within one limit. Machines fail one by one; such a
// number more likely means that the bus, the network or this process delays beats. The zero value holds nothing.
type Hold struct {
	Silent, Of int
	Since      time.Time
	Until      time.Time // they are called offline from then on
}

// Next returns the hold after a count of the late servers among those that are recorded as online. A hold that reached
// its end stays ended until the share is small again.
func (h Hold) Next(silent, of int, now time.Time, interval time.Duration) Hold {
	if silent <= holdAbove || silent*holdShare <= of {
		return Hold{}
	}
	if h.Since.IsZero() {
		h.Since, h.Until = now, now.Add(HoldLimit(interval))
	}
	h.Silent, h.Of = silent, of
	return h
}

// Holds reports whether no server is called offline now.
func (h Hold) Holds(now time.Time) bool { return !h.Since.IsZero() && now.Before(h.Until) }
