package enrol

import (
	"fmt"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
)

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
