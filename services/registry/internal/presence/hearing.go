package presence

import (
	"slices"
	"time"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// holdIntervals is for how many beat intervals silence may be put down to the bus or the registry.
const holdIntervals = 60

// stillAtLeast is for how long a process must stand still for that to count; a busy machine causes shorter gaps.
const stillAtLeast = time.Second

// HoldLimit returns how long at most no server is called offline because the bus or the registry may be the cause.
func HoldLimit(interval time.Duration) time.Duration { return holdIntervals * interval }

// Hearing is since when this process can receive beats, and until when their absence means nothing. Only time in which
// the registry could receive a beat counts as silence. The zero value is not usable; see NewHearing.
type Hearing struct {
	interval time.Duration
	spacing  time.Duration // how often servers beat at present
	returns  time.Duration // within which every server is connected that can be
	since    time.Time     // after the last interruption
	grace    time.Time     // no server is called offline before
	looked   time.Time     // when Look was last called
	heard    time.Time     // each beat that reached the bus before was looked at
}

// NewHearing returns the hearing of a process that receives beats from now on. Every server is given the time returns
// to connect again, after each interruption: how long the bus was unreachable does not bound a server's wait, since it
// may also fail to log in afterwards.
func NewHearing(now time.Time, interval, spacing, returns time.Duration) Hearing {
	return Hearing{
		interval: interval, spacing: spacing, returns: returns, since: now, looked: now, heard: now,
		grace: now.Add(Silence(spacing) + returns),
	}
}

// Space sets how often servers beat from now on.
func (h *Hearing) Space(spacing time.Duration) { h.spacing = spacing }

// Interrupted begins anew: beats may have been lost until now.
func (h *Hearing) Interrupted(now time.Time) { *h = NewHearing(now, h.interval, h.spacing, h.returns) }

// Look notes that this process runs. It must be called more often than once in a beat interval: a longer gap means that
// the process, or its machine, stood still, so that it received nothing, and servers may have given up the connection.
func (h *Hearing) Look(now time.Time) {
	if now.Sub(h.looked) > max(lateBy(h.interval), stillAtLeast) {
		h.Interrupted(now)
	}
	h.looked = now
}

// Heard notes that each beat was looked at that had reached the bus at that time.
func (h *Hearing) Heard(until time.Time) {
	if until.After(h.heard) {
		h.heard = until
	}
}

// Until returns until when silence counts: a beat that came later may still be on its way to this process.
func (h *Hearing) Until() time.Time { return h.heard }

// Returned notes a beat of an online server that was not received since the last interruption. While servers still come
// back, the others are given the time too, within HoldLimit.
func (h *Hearing) Returned(now time.Time) {
	grace := now.Add(Silence(h.spacing))
	if limit := h.since.Add(HoldLimit(h.interval)); grace.After(limit) {
		grace = limit
	}
	if grace.After(h.grace) {
		h.grace = grace
	}
}

// Began returns since when beats are received.
func (h *Hearing) Began() time.Time { return h.since }

// Grace returns until when no server is called offline.
func (h *Hearing) Grace() time.Time { return h.grace }

// lateBy returns how long a server may be silent before it counts as late: one beat is missing by then.
func lateBy(interval time.Duration) time.Duration { return interval + interval/2 }

// LateSince returns since when a server that is recorded as online misses a beat, or has no connection; zero while it
// does not. Silence counts from the last beat, but not from before this process could receive one; a server without a
// beat is expected as often as any.
func LateSince(s *serverv1.Server, last Beat, hearing, now time.Time, interval, spacing time.Duration) time.Time {
	if !server.Believed(s) || s.Presence != serverv1.Presence_PRESENCE_ONLINE {
		return time.Time{}
	}
	if !last.Gone.IsZero() && last.Gone.After(hearing) && now.Sub(last.Gone) >= askedFor {
		return last.Gone
	}
	from, every := last.At, last.every(interval)
	if hearing.After(from) {
		from, every = hearing, max(every, LongestSpacing(interval, spacing))
	}
	if now.Sub(from) < lateBy(every) {
		return time.Time{}
	}
	return from.Add(every)
}

// Silent reports whether a server that is late since a time misses a beat: one whose connection ended a moment ago may
// only have started again.
func Silent(since, now time.Time, interval time.Duration) bool {
	return !since.IsZero() && now.Sub(since) >= lateBy(interval)-interval
}

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
