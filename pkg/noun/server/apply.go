package server

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Apply folds a fact into a server's record, which is nil for an unknown server, and returns the
// record after it; nil means that the server is forgotten. Apply may change the record in place.
// It returns false, and the record unchanged, for a fact that does not fit.
func Apply(s *serverv1.Server, f ledger.Fact) (*serverv1.Server, bool) {
	next, fit := Life.Next(StateOf(s.GetLife()), f.Name())
	switch {
	case !fit:
		return s, false
	case next == Forgotten:
		return nil, true
	case s == nil:
		s = &serverv1.Server{Id: f.Key}
	}
	if life := next.Proto(); life != s.Life {
		s.Life, s.Since, s.Reason = life, timestamppb.New(f.At), ""
	}
	environment, joined := s.Environment, s.EnrolledAt != nil
	record(s, f)
	_, again := f.Body.(*serverv1.Reinstalled)
	if s.Environment != environment && joined || s.EnrolledAt != nil && !joined || again {
		s.EnvironmentJoined = f.Sequence
	}
	return s, true
}

// record folds the body of a fact that fits.
func record(s *serverv1.Server, f ledger.Fact) {
	switch b := f.Body.(type) {
	case *serverv1.Invited:
		s.Name, s.Cell, s.Labels, s.Environment, s.Ownership = b.Name, b.Cell, b.Labels, b.Environment, b.Ownership
		s.Owners, s.LobbyFingerprint = b.Owners, b.LobbyFingerprint
		s.TokenSha256, s.TokenExpiresAt, s.GuestKey, s.Token = b.TokenSha256, b.ExpiresAt, b.GuestKey, b.Token
	case *serverv1.Changed:
		s.Environment, s.Name, s.Owners = b.Environment, cmp.Or(b.Name, s.Name), b.Owners
		s.Labels, s.RuleLabels = WithRules(b.Labels, s.RuleLabels)
	case *serverv1.SysinfoSeen:
		s.Sysinfo = b.Sysinfo
		if b.BootId != "" {
			s.BootId = b.BootId
		}
	case *serverv1.AgentsFound:
		recordFound(s, b, f.At)
	case *serverv1.Dying:
		s.IntentId, s.Reinstall = b.IntentId, nil
	case *serverv1.Dead:
		recordDeath(s, f, b)
	case *serverv1.Uninstalled:
		s.UninstalledAt, s.LeftPaths, s.LeftOwn = timestamppb.New(f.At), b.Left, b.LeftOwn
		if s.PublicKey, s.FarewellKey = "", s.PublicKey; b.Via != "" {
			s.FarewellKey = "" // no executor waits for an answer
			s.CleanUp = &serverv1.CleanUp{At: b.EndedAt, Actor: f.Actor, Via: b.Via}
		}
	case *serverv1.CleanUpFailed:
		s.CleanUp = &serverv1.CleanUp{At: b.EndedAt, Actor: f.Actor, Via: b.Via, Code: b.Code, Reason: b.Reason}
	default:
		if !recordHistory(s, f) && !recordCredentials(s, f) && !recordStanding(s, f) {
			recordPresence(s, f)
		}
	}
}

// recordPresence folds a fact about presence, or about labels by rules.
func recordPresence(s *serverv1.Server, f ledger.Fact) {
	presence, reason := s.Presence, s.Reason
	switch b := f.Body.(type) {
	case *serverv1.Online:
		presence, reason = serverv1.Presence_PRESENCE_ONLINE, ""
		s.BootId = b.BootId
	case *serverv1.Labelled:
		s.Labels, s.RuleLabels = WithRules(OwnLabels(s), b.Labels)
	case *serverv1.Offline:
		presence, reason = serverv1.Presence_PRESENCE_OFFLINE, "no beat arrives"
	}
	if presence != s.Presence {
		s.Presence, s.Since, s.Reason = presence, timestamppb.New(f.At), reason
	}
}

// recordDeath keeps what the history of a dead server needs, and no token. It keeps the key, with
// which the executor reads its tombstone.
func recordDeath(s *serverv1.Server, f ledger.Fact, b *serverv1.Dead) {
	s.Presence = serverv1.Presence_PRESENCE_UNSPECIFIED
	s.TokenSha256, s.TokenExpiresAt, s.GuestKey, s.UsedGuestKey = nil, nil, "", ""
	keepFound(s)
	s.Ahead, s.Confirmed, s.Condition, s.Duplicate, s.Reinstall = nil, nil, nil, nil, nil
	s.Tombstone = b.Tombstone
	if b.IntentId != "" {
		s.IntentId = b.IntentId
	}
	if b.Lost {
		s.Reason = "the machine was lost"
	}
	if b.Forced {
		s.Reason = "the machine was given up while it beat"
		stand(s, f, serverv1.Standing_STANDING_REVOKED, "", exclusion(f, s.Reason, ""))
	}
}

// recordHistory folds a fact about the server's epoch, its executor's condition, a duplicate or a
// reinstall, and reports whether it was one.
func recordHistory(s *serverv1.Server, f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *serverv1.Ahead:
		s.Ahead = &serverv1.ServerAhead{Place: b.Place, LedgerEnd: b.LedgerEnd, Since: timestamppb.New(f.At)}
	case *serverv1.EpochRaised:
		s.Epoch, s.Ahead, s.Confirmed = b.Epoch, nil, nil
	case *serverv1.PlaceConfirmed:
		s.Confirmed = b.Place
	case *serverv1.ConditionChanged:
		s.Condition = &serverv1.ServerCondition{
			State: b.State, Code: b.Code, Reason: b.Reason, Since: timestamppb.New(f.At),
		}
	case *serverv1.Duplicated:
		s.Duplicate = &serverv1.ServerDuplicate{Sightings: b.Sightings, Since: timestamppb.New(f.At)}
	case *serverv1.DuplicateEnded:
		s.Duplicate = nil
	case *serverv1.Reinstalling:
		s.Reinstall = &serverv1.Reinstall{IntentId: b.IntentId, Actor: f.Actor, Since: timestamppb.New(f.At)}
	case *serverv1.Reinstalled:
		s.Reinstall, s.ReinstalledAt = nil, timestamppb.New(f.At)
	default:
		return false
	}
	return true
}

// CompareFound orders unmanaged agents. It ignores since when each is known.
func CompareFound(a, b *serverv1.FoundAgent) int {
	return cmp.Or(
		cmp.Compare(a.Agent, b.Agent),
		cmp.Compare(a.Trace, b.Trace),
		cmp.Compare(a.Path, b.Path),
		bytes.Compare(a.Digest, b.Digest),
		cmp.Compare(a.Version, b.Version),
		cmp.Compare(a.ImageId, b.ImageId),
		cmp.Compare(a.OtherServerId, b.OtherServerId),
		cmp.Compare(a.OtherRoot, b.OtherRoot),
	)
}

// recordFound replaces the list of unmanaged agents. One that was listed before keeps its time.
func recordFound(s *serverv1.Server, f *serverv1.AgentsFound, at time.Time) {
	before := s.Found
	s.Found, s.FoundMore, s.FoundAt = nil, f.GetMore(), timestamppb.New(at)
	for _, a := range f.GetAgents() {
		next := proto.CloneOf(a)
		next.Since = s.FoundAt
		if i := slices.IndexFunc(before, func(b *serverv1.FoundAgent) bool { return CompareFound(a, b) == 0 }); i >= 0 {
			next.Since = before[i].Since
		}
		s.Found = append(s.Found, next)
	}
}

// keepFound keeps the unmanaged agents of a server that died, except those that certainly belong
// to another server or root.
func keepFound(s *serverv1.Server) {
	for _, f := range s.Found {
		if f.OtherServerId == "" && f.OtherRoot == "" {
			s.FoundAtDeath = append(s.FoundAtDeath, f)
		}
	}
	s.FoundAtDeathMore = s.FoundMore
	s.Found, s.FoundMore, s.FoundAt = nil, 0, nil
}
