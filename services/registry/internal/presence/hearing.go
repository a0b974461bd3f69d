package presence

import (
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
	returns  time.Duration // within which every server is connected that can be
	since    time.Time     // after the last interruption
	grace    time.Time     // no server is called offline before
	looked   time.Time     // when Look was last called
	heard    time.Time     // each beat that reached the bus before was looked at
}

// NewHearing returns the hearing of a process that receives beats from now on. Every server is given the time returns
// to connect again, after each interruption: how long the bus was unreachable does not bound a server's wait, since it
// may also fail to log in afterwards.
func NewHearing(now time.Time, interval, returns time.Duration) Hearing {
	return Hearing{
		interval: interval, returns: returns, since: now, looked: now, heard: now,
		grace: now.Add(Silence(interval) + returns),
	}
}

// Interrupted begins anew: beats may have been lost until now.
func (h *Hearing) Interrupted(now time.Time) { *h = NewHearing(now, h.interval, h.returns) }

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
	grace := now.Add(Silence(h.interval))
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

// LateSince returns since when a server that is recorded as online misses a beat; zero while it does not. Silence
// counts from the last beat, but not from before this process could receive one.
func LateSince(s *serverv1.Server, last Beat, hearing, now time.Time, interval time.Duration) time.Time {
	from := last.At
	if hearing.After(from) {
		from = hearing
	}
	if !server.Believed(s) || s.Presence != serverv1.Presence_PRESENCE_ONLINE || now.Sub(from) < lateBy(interval) {
		return time.Time{}
	}
	return from.Add(interval)
}
