// Package presence decides from a server's beats, or their absence, which facts about the server
// are due: online and offline, the condition that its executor reports, and two executors that
// beat with one identity. Everything here is pure: the time and the beats are arguments.
//
// Guarantees:
//
//  1. Decide is the only function that decides presence.
//  2. A server is called offline only after three of its beats did not come, or three intervals after its last
//     connection ended, in which this process could receive one. What reached the bus and waits for this process counts
//     as received. After the start of this process, after the bus was unreachable and after this process stood still,
//     each server is also given the time to connect again.
//  3. While more than ten servers and a fifth of all are silent, none is called offline, for sixty intervals at most.
//  4. A late server, which missed a beat or has no connection, is derived and never a fact.
//  5. How often one server can cause these facts is bounded. Package bounds cut its beats before.
package presence

import (
	"iter"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intake"
)

// missedBeats is how many beats in a row may be missed. A healthy network loses one now and then,
// and hardly ever three in a row.
const missedBeats = 3

// Beat is the last beat of a server that this process received. The zero value means that it
// received none.
type Beat struct {
	At       time.Time
	Every    time.Duration // the longest time until the next one; 0 when it does not say
	Gone     time.Time     // when its last connection had ended; zero unless that was since this beat
	BootID   string
	Place    *serverv1.DocumentPlace // the document that the server applied last
	State    serverv1.ExecutorState
	Code     string // why the executor is in that state
	Reason   string
	Reset    string   // the reinstall for which its executor last kept nothing of agents; empty for none
	Sessions Sessions // the executors that beat as this server in the last while
	Clock    Clock    // what the last beats show of the server's clock
	// When a beat last said that no report is waiting in the server's outbox.
	SettledAt time.Time
	Asked     time.Time     // when it was last asked for a beat
	AskedFor  time.Duration // and for how much time between the next ones; 0 before that
}

// Silence returns how long an online server may go without a beat before it is called offline.
func Silence(interval time.Duration) time.Duration { return missedBeats * interval }

// silentAfter returns when the server is silent unless another beat comes.
func (b Beat) silentAfter(interval time.Duration) time.Time {
	by := b.At.Add(Silence(b.every(interval)))
	if gone := b.Gone.Add(Silence(interval)); !b.Gone.IsZero() && gone.Before(by) {
		return gone
	}
	return by
}

// Fresh reports whether the server is not silent at a time.
func (b Beat) Fresh(now time.Time, interval time.Duration) bool {
	return !b.At.IsZero() && now.Before(b.silentAfter(interval))
}

// Timing is what presence is decided with.
type Timing struct {
	Now      time.Time
	Heard    time.Time     // each beat was looked at that reached the bus before
	Interval time.Duration // how often servers beat, unless their beats say that they beat less often
	Spacing  time.Duration // how often they shall beat at present
	Grace    time.Time     // no server is called offline before, because this process may have missed beats
	Held     bool          // no server that is believed is called offline, because too many are silent at once
}

// Decide returns the fact by which a server's presence changes, or nil. Boot ids that alternate
// because two machines beat with one identity do not count as reboots. A reboot soon after another
// one waits; the last one is recorded.
func Decide(s *serverv1.Server, last Beat, t Timing) proto.Message {
	if !server.Managed(s) {
		return nil
	}
	online := s.Presence == serverv1.Presence_PRESENCE_ONLINE
	if last.Fresh(t.Now, t.Interval) {
		if !online || rebooted(s, last) && intake.BootMayChange(s, t.Now, t.Interval) {
			return &serverv1.Online{BootId: last.BootID}
		}
		return nil
	}
	unheard := t.Heard.Before(t.Grace) || t.Heard.Before(last.silentAfter(t.Interval))
	if !online || unheard || t.Held && server.Believed(s) {
		return nil
	}
	offline := &serverv1.Offline{}
	if !last.At.IsZero() {
		offline.LastBeatAt = timestamppb.New(last.At)
	}
	return offline
}

// rebooted reports whether a beat shows that the server's machine started again.
func rebooted(s *serverv1.Server, last Beat) bool {
	return last.BootID != "" && last.BootID != s.BootId && s.Duplicate == nil && !last.Sessions.Suspect()
}

// DecideReinstalled returns the fact that ends a reinstall, or nil: no instance is left, and the server's executor
// said for this reinstall that it kept nothing.
func DecideReinstalled(s *serverv1.Server, last Beat, instances iter.Seq[*instancev1.Instance]) proto.Message {
	under := s.GetReinstall()
	if under == nil || last.Reset != under.IntentId || s.Duplicate != nil {
		return nil
	}
	for range instances {
		return nil
	}
	return &serverv1.Reinstalled{IntentId: under.IntentId}
}
