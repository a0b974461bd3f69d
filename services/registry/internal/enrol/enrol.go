// Package enrol decides whether who asks to be a server is the one that was invited.
//
// Guarantees:
//
//  1. A token admits one key. Asking again with that key is answered as before, so that
//     a lost answer costs nothing; with another key it is refused.
//  2. The secret is compared by its hash, in constant time. A wrong secret and an
//     unknown server are refused in the same words.
package enrol

import (
	"crypto/sha256"
	"crypto/subtle"
	"time"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Decision is what becomes of a request.
type Decision struct {
	Refusal *apiv1.Refusal     // why not, or nil
	Fact    *serverv1.Enrolled // what is to be recorded; nil when it already is
}

// Decide decides a request that came from a cell. s is nil for a server that nobody knows.
func Decide(s *serverv1.Server, cell string, q *registryv1.EnrolRequest, at time.Time) Decision {
	hash := sha256.Sum256([]byte(q.GetSecret()))
	if s == nil || s.Cell != cell || subtle.ConstantTimeCompare(hash[:], s.TokenSha256) != 1 {
		return refuse("UNKNOWN_TOKEN", "no invitation has this token")
	}
	if q.GetPublicKey() == "" || q.GetSysinfo().GetPlatform().GetOs() == "" || q.GetSysinfo().GetPlatform().GetArch() == "" {
		return refuse("MALFORMED", "a request to enrol needs a public key and a sysinfo with its platform")
	}
	if s.Life != serverv1.Life_LIFE_INVITED {
		if s.PublicKey == q.PublicKey {
			return Decision{}
		}
		return refuse("USED_TOKEN", "the token was used by another key")
	}
	if expires := s.TokenExpiresAt.AsTime(); !at.Before(expires) {
		return refuse("EXPIRED_TOKEN", "the token expired at "+expires.Format(time.RFC3339))
	}
	return Decision{Fact: &serverv1.Enrolled{PublicKey: q.PublicKey, Sysinfo: q.Sysinfo}}
}

func refuse(code, message string) Decision {
	return Decision{Refusal: &apiv1.Refusal{Code: code, Message: message, Try: "a new token: garrison server enroll NAME"}}
}
