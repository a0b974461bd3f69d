package server

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Apply folds a fact into the server's row, which may be nil, and gives the row after
// it; nil means that the server is forgotten. A fact that does not fit gives false, and
// the row is as it was.
func Apply(s *serverv1.Server, f ledger.Fact) (*serverv1.Server, bool) {
	next, ok := Life.Next(place(s), f.Name())
	if !ok {
		return s, false
	}
	if next == forgotten {
		return nil, true
	}
	if s == nil {
		s = &serverv1.Server{Id: f.Key}
	}
	if life := lives[next]; life != s.Life {
		s.Life, s.Since, s.Reason = life, timestamppb.New(f.At), ""
	}
	record(s, f)
	return s, true
}

func record(s *serverv1.Server, f ledger.Fact) {
	switch b := f.Body.(type) {
	case *serverv1.Invited:
		s.Name, s.Cell, s.Labels, s.Environment, s.Ownership = b.Name, b.Cell, b.Labels, b.Environment, b.Ownership
		s.TokenSha256, s.TokenExpiresAt = b.TokenSha256, b.ExpiresAt
	case *serverv1.Enrolled:
		s.PublicKey, s.Sysinfo, s.EnrolledAt = b.PublicKey, b.Sysinfo, timestamppb.New(f.At)
		s.Standing, s.Epoch = serverv1.Standing_STANDING_ENROLLED, 1
	case *serverv1.Changed:
		s.Labels, s.Environment = b.Labels, b.Environment
	case *serverv1.SysinfoSeen:
		s.Sysinfo = b.Sysinfo
		if b.BootId != "" {
			s.BootId = b.BootId
		}
	case *serverv1.AgentsFound:
		find(s, b, f.At)
	case *serverv1.Dying:
		s.IntentId = b.IntentId
	case *serverv1.Dead:
		bury(s, b)
	case *serverv1.Uninstalled:
		s.UninstalledAt, s.LeftPaths, s.LeftOwn = timestamppb.New(f.At), b.Left, b.LeftOwn
		if b.Via != "" {
			s.CleanUp = &serverv1.CleanUp{At: b.EndedAt, Actor: f.Actor, Via: b.Via}
		}
	case *serverv1.CleanUpFailed:
		s.CleanUp = &serverv1.CleanUp{At: b.EndedAt, Actor: f.Actor, Via: b.Via, Code: b.Code, Reason: b.Reason}
	default:
		if !recordHistory(s, f) {
			recordPresence(s, f)
		}
	}
}

func recordPresence(s *serverv1.Server, f ledger.Fact) {
	presence, standing, reason := s.Presence, s.Standing, s.Reason
	switch b := f.Body.(type) {
	case *serverv1.Online:
		presence, reason = serverv1.Presence_PRESENCE_ONLINE, ""
		s.BootId = b.BootId
	case *serverv1.Offline:
		presence, reason = serverv1.Presence_PRESENCE_OFFLINE, "no beat arrives"
	case *serverv1.Quarantined:
		standing, reason = serverv1.Standing_STANDING_QUARANTINED, b.Reason
	case *serverv1.Released:
		standing, reason = serverv1.Standing_STANDING_ENROLLED, b.Reason
	}
	if presence != s.Presence || standing != s.Standing {
		s.Presence, s.Standing, s.Since, s.Reason = presence, standing, timestamppb.New(f.At), reason
	}
}

// bury leaves of a dead server what history needs, and nothing that opens a door.
func bury(s *serverv1.Server, b *serverv1.Dead) {
	s.Presence = serverv1.Presence_PRESENCE_UNSPECIFIED
	s.TokenSha256, s.TokenExpiresAt, s.PublicKey = nil, nil, ""
	keepFound(s)
	s.Ahead, s.Confirmed, s.Condition, s.Duplicate = nil, nil, nil, nil
	s.Tombstone = b.Tombstone
	if b.IntentId != "" {
		s.IntentId = b.IntentId
	}
	if b.Lost {
		s.Reason = "the machine was lost"
	}
}
