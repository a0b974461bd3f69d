package server

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// FarewellPeriod is how long the executor of a dead server is let in to read its tombstone and to
// send its receipt.
const FarewellPeriod = 7 * 24 * time.Hour

// EnrolGrace is how long a used token still lets in, so that a server whose answer was lost can ask
// for the same one again.
const EnrolGrace = 5 * time.Minute

// ReceiptGrace is how long an executor that reported that it removes itself is still let in: until it has the answer,
// it removes nothing.
const ReceiptGrace = 15 * time.Second

// Believed reports whether a server's beats and reports count.
func Believed(s *serverv1.Server) bool { return Managed(s) && !ShutOut(s) }

// ShutOut reports whether a server is quarantined or revoked.
func ShutOut(s *serverv1.Server) bool {
	return s.GetStanding() == serverv1.Standing_STANDING_QUARANTINED ||
		s.GetStanding() == serverv1.Standing_STANDING_REVOKED
}

// Void reports whether a server under management has no credentials with which it could come back:
// they were revoked, or they have expired.
func Void(s *serverv1.Server, at time.Time) bool {
	expires := s.GetCredentialsExpireAt()
	return s.GetStanding() == serverv1.Standing_STANDING_REVOKED || expires != nil && !at.Before(expires.AsTime())
}

// HasToken reports whether a token was made for a server and not used yet.
func HasToken(s *serverv1.Server) bool {
	return s.GetLife() == serverv1.Life_LIFE_INVITED || s.GetGuestKey() != ""
}

// InvitationExpired reports whether a server was invited and did not join before its token expired.
func InvitationExpired(s *serverv1.Server, at time.Time) bool {
	return s.GetLife() == serverv1.Life_LIFE_INVITED && s.GetTokenExpiresAt() != nil &&
		!at.Before(s.TokenExpiresAt.AsTime())
}

// TakesUnsigned reports whether a living server takes images that no key signed. One that has never connected did not
// say so yet.
func TakesUnsigned(s *serverv1.Server) bool {
	return s.GetLife() == serverv1.Life_LIFE_ALIVE && s.GetSysinfo() != nil && !s.Sysinfo.WantsSignatures &&
		s.Presence != serverv1.Presence_PRESENCE_UNSPECIFIED
}

// Keys are the public keys of a server's credentials; empty where it has no such key.
type Keys struct {
	Guest string // of the token
	Own   string // that the server made for itself
}

// Admitted returns the keys of a server that the bus should let in at a time, and until when that
// holds without another fact about the server; zero means for ever. Every other key that a fact about
// the server ever named must be refused until its JWT expires. A dead server is let in for the
// FarewellPeriod, or until the ReceiptGrace is over once its executor removed itself.
func Admitted(s *serverv1.Server, at time.Time) (keys Keys, until time.Time) {
	if s.GetStanding() == serverv1.Standing_STANDING_QUARANTINED {
		return Keys{}, time.Time{}
	}
	keys.Guest = s.GetGuestKey()
	if s.GetStanding() == serverv1.Standing_STANDING_REVOKED {
		return keys, time.Time{}
	}
	switch {
	case Managed(s):
		keys.Own = s.PublicKey
		if end := s.EnrolledAt.AsTime().Add(EnrolGrace); s.UsedGuestKey != "" && keys.Guest == "" && at.Before(end) {
			keys.Guest, until = s.UsedGuestKey, end
		}
	case s.GetLife() == serverv1.Life_LIFE_DEAD && s.PublicKey != "":
		if end := s.Since.AsTime().Add(FarewellPeriod); at.Before(end) {
			keys.Own, until = s.PublicKey, end
		}
	case s.GetLife() == serverv1.Life_LIFE_DEAD && s.FarewellKey != "":
		if end := s.UninstalledAt.AsTime().Add(ReceiptGrace); at.Before(end) {
			keys.Own, until = s.FarewellKey, end
		}
	}
	return keys, until
}

// recordCredentials folds a fact about a token or a key, and reports whether it was one.
func recordCredentials(s *serverv1.Server, f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *serverv1.Reinvited:
		s.TokenSha256, s.TokenExpiresAt, s.GuestKey, s.UsedGuestKey = b.TokenSha256, b.ExpiresAt, b.GuestKey, ""
	case *serverv1.Enrolled:
		s.PublicKey, s.CredentialsExpireAt, s.GuestKey, s.UsedGuestKey = b.PublicKey, b.ExpiresAt, "", s.GuestKey
		s.Sysinfo, s.EnrolledAt, s.Epoch = b.Sysinfo, timestamppb.New(f.At), Epoch(s.Epoch)
		s.Duplicate, s.CredentialsSince = nil, timestamppb.New(f.At) // only one machine has the new key
		stand(s, f, serverv1.Standing_STANDING_ENROLLED, "", nil)
	case *serverv1.CredentialsRenewed:
		s.PublicKey, s.CredentialsExpireAt, s.CredentialsSince = b.PublicKey, b.ExpiresAt, timestamppb.New(f.At)
	default:
		return false
	}
	return true
}

// recordStanding folds a fact about the standing, and reports whether it was one. A quarantine and
// its release do not change a server that is revoked.
func recordStanding(s *serverv1.Server, f ledger.Fact) bool {
	switch b := f.Body.(type) {
	case *serverv1.Quarantined:
		if s.Standing != serverv1.Standing_STANDING_REVOKED {
			stand(s, f, serverv1.Standing_STANDING_QUARANTINED, b.Reason, exclusion(f, b.Reason, b.Code))
		}
	case *serverv1.Released:
		if s.Standing == serverv1.Standing_STANDING_QUARANTINED {
			stand(s, f, serverv1.Standing_STANDING_ENROLLED, b.Reason, nil)
		}
	case *serverv1.Revoked:
		s.TokenSha256, s.TokenExpiresAt, s.GuestKey, s.UsedGuestKey = nil, nil, "", ""
		stand(s, f, serverv1.Standing_STANDING_REVOKED, b.Reason, exclusion(f, b.Reason, ""))
	default:
		return false
	}
	return true
}

func exclusion(f ledger.Fact, reason, code string) *serverv1.Exclusion {
	return &serverv1.Exclusion{Reason: reason, Code: code, Actor: f.Actor, Since: timestamppb.New(f.At)}
}

// stand changes the standing. The time and the reason of a new server and of a dead one are those of its life.
func stand(s *serverv1.Server, f ledger.Fact, next serverv1.Standing, reason string, why *serverv1.Exclusion) {
	s.Exclusion = why
	if s.Standing == next {
		return
	}
	if s.Standing != serverv1.Standing_STANDING_UNSPECIFIED && s.Life != serverv1.Life_LIFE_DEAD {
		s.Since, s.Reason = timestamppb.New(f.At), reason
	}
	s.Standing = next
}
