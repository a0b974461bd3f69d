package presence

import (
	"slices"
	"time"
)

// Servers is what is known of the servers of the bus. When one of them goes away, the beats of the fleet's servers that
// are connected to it are lost until they have connected to another one, while this process loses nothing. The zero
// value knows nothing.
type Servers struct {
	seen   bool // the bus has answered
	others int
	leader string
	silent []string
}

// Next returns what is known after the bus has named the server that leads, and how many others there are, of which
// some are silent. It also returns whether beats may have been lost since the last answer: a server is silent that
// was heard before, or another one leads. A server that stays away causes that once.
func (s Servers) Next(leader string, others int, silent []string) (next Servers, lost bool) {
	lost = s.seen && s.leader != leader
	for _, name := range silent {
		lost = lost || s.seen && !slices.Contains(s.silent, name)
	}
	return Servers{seen: true, others: others, leader: leader, silent: silent}, lost
}

// Several reports whether the bus has other servers to which the fleet's servers may be connected. While such a bus
// does not answer, this process may be cut off from them.
func (s Servers) Several() bool { return s.others > 0 }

// Known reports whether the bus has answered.
func (s Servers) Known() bool { return s.seen }

// Blame bounds for how long silence is attributed to servers of the bus that go away again and again, such as one in a
// crash loop. Without the bound, no server of the fleet would ever become offline. The zero value attributes nothing.
type Blame struct {
	since, last time.Time
}

// Next returns the blame after a server of the bus went away, and reports whether silence is attributed to that: within
// HoldLimit of the first time, which counts anew once no server went away for as long as each is given to return.
func (b Blame) Next(now time.Time, interval, returns time.Duration) (next Blame, counts bool) {
	if now.Sub(b.last) >= Silence(interval)+returns {
		b.since = now
	}
	b.last = now
	return b, now.Sub(b.since) < HoldLimit(interval)
}
