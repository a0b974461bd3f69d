package server

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// missedBeats is how many beats in a row may be missed: one is lost now and then on a
// healthy network, three in a row hardly ever are.
const missedBeats = 3

// Heard is the last beat of a server that this process heard.
type Heard struct {
	At       time.Time
	BootID   string
	Place    *serverv1.DocumentPlace // the last document that it applied
	State    serverv1.ExecutorState
	Code     string // why it is in that state
	Reason   string
	Sessions Sessions // who beat as this server lately
	// When a beat last said that nothing waits to be reported.
	SettledAt time.Time
}

// Silence is how long nothing may be heard of a server that is online.
func Silence(beat time.Duration) time.Duration { return missedBeats * beat }

// Watch is what presence is judged by.
type Watch struct {
	Now   time.Time
	Beat  time.Duration // how often servers beat
	Grace time.Time     // until then this process may not have heard everybody, and nobody is called offline
}

// Judge gives the fact by which a server's presence changes, or nil. heard is zero when
// this process never heard the server. The boots of two machines with one identity are no reboots.
func Judge(s *serverv1.Server, heard Heard, w Watch) proto.Message {
	if !Managed(s) {
		return nil
	}
	online := s.Presence == serverv1.Presence_PRESENCE_ONLINE
	if !heard.At.IsZero() && w.Now.Sub(heard.At) < Silence(w.Beat) {
		if !online || heard.BootID != "" && heard.BootID != s.BootId && s.Duplicate == nil && !heard.Sessions.Suspect() {
			return &serverv1.Online{BootId: heard.BootID}
		}
		return nil
	}
	if !online || w.Now.Before(w.Grace) {
		return nil
	}
	offline := &serverv1.Offline{}
	if !heard.At.IsZero() {
		offline.LastBeatAt = timestamppb.New(heard.At)
	}
	return offline
}
