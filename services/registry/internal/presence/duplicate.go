package presence

import (
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

const (
	// maxSessions is how many executors are remembered for one server.
	maxSessions = 4
	// returnsOfTwo is how often each of two executors must come back after the other. One that ended never comes back;
	// a beat that was delayed in transit makes each come back once at most.
	returnsOfTwo = 2
	// suspicion is how long after such a return another boot id does not count as a reboot.
	suspicion = time.Minute
)

// Session is one start of an executor that beats as a server.
type Session struct {
	Sighting *serverv1.Sighting
	since    time.Time // of its first beat
	At       time.Time // of its last beat
	returns  int       // how often it beat after another session had
	returned time.Time // when it last did
}

// Sessions are the starts of executors that beat as one server in the last while, the latest first.
type Sessions []Session

// SightingOf returns the sender of a beat. An executor that does not send its session is identified by its boot.
func SightingOf(b *reportv1.Beat) *serverv1.Sighting {
	return &serverv1.Sighting{
		BootId: b.GetBootId(), Hostname: b.GetHostname(), SessionId: cmp.Or(b.GetSessionId(), b.GetBootId()),
	}
}

// SessionTimeout returns how long after its last beat an executor still counts as one that beats.
func SessionTimeout(interval time.Duration) time.Duration { return 12*interval + 10*time.Second }

// Add returns the sessions after one more beat.
func (have Sessions) Add(from *serverv1.Sighting, now time.Time, timeout time.Duration) Sessions {
	next := Session{Sighting: from, since: now}
	var rest Sessions
	for n, s := range have {
		switch {
		case s.Sighting.GetSessionId() == from.GetSessionId():
			next = s
			if n > 0 { // another session beat since
				if now.Sub(s.returned) >= timeout {
					next.returns = 0
				}
				next.returns, next.returned = next.returns+1, now
			}
		case now.Sub(s.At) < timeout:
			rest = append(rest, s)
		}
	}
	next.At = now
	return append(Sessions{next}, rest[:min(len(rest), maxSessions-1)]...)
}

// Suspect reports whether an executor came back after another one had beaten, which no reboot causes.
func (have Sessions) Suspect() bool {
	return slices.ContainsFunc(have, func(s Session) bool {
		return s.returns > 0 && have[0].At.Sub(s.returned) < suspicion
	})
}

// alternating returns the sessions that keep coming back after each other; empty unless there are two. A session that
// did not beat since the server enrolled last had another key and is shut out.
func (have Sessions) alternating(enrolled time.Time) (out []*serverv1.Sighting) {
	for _, s := range have {
		if s.returns >= returnsOfTwo && s.At.After(enrolled) {
			named := proto.CloneOf(s.Sighting)
			named.Since = timestamppb.New(s.since)
			out = append(out, named)
		}
	}
	if len(out) < 2 {
		return nil
	}
	slices.SortFunc(out, func(a, b *serverv1.Sighting) int { return cmp.Compare(a.SessionId, b.SessionId) })
	return out
}

// DecideDuplicate returns the fact that two executors beat as one server, or that only one still
// does, or nil. listening is since when this process receives beats.
func DecideDuplicate(
	s *serverv1.Server, last Beat, now, listening time.Time, timeout time.Duration,
) proto.Message {
	if !server.Managed(s) || len(last.Sessions) == 0 || now.Sub(last.At) >= timeout {
		return nil
	}
	if s.Duplicate == nil {
		if two := last.Sessions.alternating(s.EnrolledAt.AsTime()); two != nil {
			return &serverv1.Duplicated{Sightings: two}
		}
		return nil
	}
	for _, other := range last.Sessions[1:] {
		if now.Sub(other.At) < timeout {
			return nil
		}
	}
	if now.Sub(listening) < timeout || now.Sub(s.Duplicate.GetSince().AsTime()).Abs() < timeout {
		return nil
	}
	return &serverv1.DuplicateEnded{Left: last.Sessions[0].Sighting}
}
