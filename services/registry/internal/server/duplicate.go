package server

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	// maxSessions is how many executors are remembered for one server.
	maxSessions = 4
	// returnsOfTwo is how often each of two executors must come back after the other. One that ended never comes back;
	// a beat that was delayed by its way makes each come back once at most.
	returnsOfTwo = 2
	// suspicion is how long after such a return another boot counts as no reboot.
	suspicion   = time.Minute
	maxHostname = 64
)

// Session is one start of an executor that beats as a server.
type Session struct {
	Sighting *serverv1.Sighting
	At       time.Time // when it was last heard
	returns  int       // how often it was heard after another one had been heard since
	returned time.Time // when it last was
}

// Sessions are the starts of executors that beat as one server lately, the last heard first.
type Sessions []Session

// SightingOf returns who sent a beat. An executor that does not say its session is known by its boot.
func SightingOf(b *reportv1.Beat) *serverv1.Sighting {
	return &serverv1.Sighting{
		BootId: clip(b.GetBootId(), maxName), Hostname: clip(b.GetHostname(), maxHostname),
		SessionId: clip(cmp.Or(b.GetSessionId(), b.GetBootId()), maxName),
	}
}

// Lately is how long an executor that is not heard any more still counts as one that beats.
func Lately(beat time.Duration) time.Duration { return 12*beat + 10*time.Second }

// Hear returns the sessions after one more beat.
func (have Sessions) Hear(from *serverv1.Sighting, now time.Time, lately time.Duration) Sessions {
	next := Session{Sighting: from}
	var rest Sessions
	for n, s := range have {
		switch {
		case s.Sighting.GetSessionId() == from.GetSessionId():
			next = s
			if n > 0 { // another one was heard since
				if now.Sub(s.returned) >= lately {
					next.returns = 0
				}
				next.returns, next.returned = next.returns+1, now
			}
		case now.Sub(s.At) < lately:
			rest = append(rest, s)
		}
	}
	next.At = now
	return append(Sessions{next}, rest[:min(len(rest), maxSessions-1)]...)
}

// Suspect reports whether an executor came back after another one had been heard: no reboot looks like that.
func (have Sessions) Suspect() bool {
	return slices.ContainsFunc(have, func(s Session) bool {
		return s.returns > 0 && have[0].At.Sub(s.returned) < suspicion
	})
}

// twins returns the sessions that keep coming back after each other; none when there are no two.
func (have Sessions) twins() (out []*serverv1.Sighting) {
	for _, s := range have {
		if s.returns >= returnsOfTwo {
			out = append(out, s.Sighting)
		}
	}
	if len(out) < 2 {
		return nil
	}
	slices.SortFunc(out, func(a, b *serverv1.Sighting) int { return cmp.Compare(a.SessionId, b.SessionId) })
	return out
}

// Duplicate returns the fact by which it becomes known that two executors beat as one server, or that one alone does
// again, or nil. listening is since when this process hears beats.
func Duplicate(s *serverv1.Server, heard Heard, now, listening time.Time, lately time.Duration) proto.Message {
	if !Managed(s) || len(heard.Sessions) == 0 || now.Sub(heard.At) >= lately {
		return nil
	}
	if s.Duplicate == nil {
		if twins := heard.Sessions.twins(); twins != nil {
			return &serverv1.Duplicated{Sightings: twins}
		}
		return nil
	}
	for _, other := range heard.Sessions[1:] {
		if now.Sub(other.At) < lately {
			return nil
		}
	}
	if now.Sub(listening) < lately || now.Sub(s.Duplicate.GetSince().AsTime()).Abs() < lately {
		return nil
	}
	return &serverv1.DuplicateEnded{Left: heard.Sessions[0].Sighting}
}
