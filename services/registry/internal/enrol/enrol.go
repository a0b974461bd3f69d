// Package enrol decides whether a request to enrol comes from the server that was invited.
//
// Guarantees:
//
//  1. A token admits one key. A repeated request with that key has the same answer, so that a
//     lost answer does no harm; a request with another key is refused.
//  2. A key whose credentials are void is never signed again.
//  3. The secret is compared by its hash, in constant time. A wrong secret and an unknown
//     server have the same refusal.
package enrol

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Decision is the outcome of a request.
type Decision struct {
	Refusal *apiv1.Refusal     // why not, or nil
	Fact    *serverv1.Enrolled // the fact to record; nil when it is recorded already
}

// Decide decides a request from a cell. s is nil for an unknown server.
func Decide(s *serverv1.Server, cell string, q *registryv1.EnrolRequest, at time.Time) Decision {
	hash := sha256.Sum256([]byte(q.GetSecret()))
	if s == nil || s.Cell != cell || subtle.ConstantTimeCompare(hash[:], s.TokenSha256) != 1 {
		return refuse(code.UnknownToken, "no invitation has this token")
	}
	if q.GetPublicKey() == "" || q.GetSysinfo().GetPlatform().GetOs() == "" ||
		q.GetSysinfo().GetPlatform().GetArch() == "" {
		return refuse(code.Malformed, "a request to enrol needs a public key and a sysinfo with its platform")
	}
	if !server.HasToken(s) {
		if s.PublicKey == q.PublicKey && server.Believed(s) {
			return Decision{}
		}
		return refuse(code.UsedToken, "the token was already used with another key")
	}
	if s.Standing == serverv1.Standing_STANDING_QUARANTINED {
		return Decision{Refusal: ShutOut(s)}
	}
	if s.PublicKey == q.PublicKey {
		return Decision{Refusal: usedKey("the server had this key before; a void key is not signed again")}
	}
	if expires := s.TokenExpiresAt.AsTime(); !at.Before(expires) {
		return refuse(code.ExpiredToken, "the token expired at "+expires.Format(time.RFC3339))
	}
	return Decision{Fact: &serverv1.Enrolled{PublicKey: q.PublicKey, Sysinfo: q.Sysinfo}}
}

// OthersKey refuses the key of another server. The bus refuses a key while one of its owners is shut out: with a
// common key, one server could have the other cut off.
func OthersKey() *apiv1.Refusal { return usedKey("another server has this key") }

func usedKey(message string) *apiv1.Refusal {
	return &apiv1.Refusal{
		Code: code.UsedKey, Message: message, Try: "executor join with the same token, which makes another key",
	}
}

func refuse(code, message string) Decision {
	return Decision{
		Refusal: &apiv1.Refusal{
			Code: code, Message: message,
			Try: "a new token: garrison server enroll NAME; for a server that is under management, first " +
				"garrison server revoke NAME",
		},
	}
}

// CheckRenewal returns why a server's key is not signed again, or nil. s is nil for an unknown server.
func CheckRenewal(s *serverv1.Server, cell, publicKey string) *apiv1.Refusal {
	switch {
	case s == nil || s.Cell != cell || !server.Managed(s):
		return &apiv1.Refusal{
			Code: code.NotEnrolled, Message: "the server is not under management",
			Try: "garrison server list --unknown",
		}
	case server.ShutOut(s):
		return ShutOut(s)
	case publicKey == "" || s.PublicKey != publicKey:
		return &apiv1.Refusal{
			Code: code.OtherKey, Message: fmt.Sprintf("server %s enrolled with another key", s.Name),
			Try: "garrison server revoke " + s.Name + ", then garrison server enroll " + s.Name,
		}
	}
	return nil
}

// ShutOut returns why a server that is quarantined or revoked is refused.
func ShutOut(s *serverv1.Server) *apiv1.Refusal {
	if s.Standing == serverv1.Standing_STANDING_REVOKED {
		return &apiv1.Refusal{
			Code:    code.ServerRevoked,
			Message: fmt.Sprintf("the credentials of server %s (%s) are revoked", s.Name, s.Id),
			Try:     "garrison server enroll " + s.Name,
		}
	}
	return &apiv1.Refusal{
		Code:    code.ServerQuarantined,
		Message: fmt.Sprintf("server %s (%s) is quarantined", s.Name, s.Id),
		Try:     "garrison server release " + s.Name,
	}
}
