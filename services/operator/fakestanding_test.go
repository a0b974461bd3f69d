package operator

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// standings answers what shuts servers out. web-2 is revoked already.
func (f *fakes) standings(t testing.TB, s *bus.Service) {
	handle(t, f, s, "QuarantineServer",
		func(q *registryv1.QuarantineServerRequest) (*registryv1.QuarantineServerResponse, error) {
			if q.GetServer() == web2 {
				return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
					Code: "SERVER_REVOKED", Message: "the credentials of server web-2 are revoked",
				})
			}
			now := stand(q.GetServer(), serverv1.Standing_STANDING_QUARANTINED, q.GetReason())
			return &registryv1.QuarantineServerResponse{Server: now}, nil
		})
	handle(t, f, s, "ReleaseServer",
		func(q *registryv1.ReleaseServerRequest) (*registryv1.ReleaseServerResponse, error) {
			return &registryv1.ReleaseServerResponse{
				Server: stand(q.GetServer(), serverv1.Standing_STANDING_ENROLLED, ""),
			}, nil
		})
	handle(t, f, s, "ReplaceServer",
		func(q *registryv1.ReplaceServerRequest) (*registryv1.ReplaceServerResponse, error) {
			if q.GetServer() == web1 && !q.GetForce() {
				return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
					Code: "SERVER_ONLINE", Message: "server web-1 is online, so its machine is not gone",
					Try: "garrison server replace web-1 --force",
				})
			}
			now := stand(q.GetServer(), serverv1.Standing_STANDING_REVOKED, q.GetReason())
			return &registryv1.ReplaceServerResponse{Server: now, Token: "replacement", ExpiresAt: ago(-time.Hour)}, nil
		})
	handle(t, f, s, "RevokeServer",
		func(q *registryv1.RevokeServerRequest) (*registryv1.RevokeServerResponse, error) {
			return &registryv1.RevokeServerResponse{
				Server: stand(q.GetServer(), serverv1.Standing_STANDING_REVOKED, q.GetReason()),
			}, nil
		})
}

// stand returns a server with another standing.
func stand(id string, standing serverv1.Standing, reason string) *serverv1.Server {
	for _, s := range servers() {
		if s.Id != id {
			continue
		}
		s = proto.CloneOf(s)
		if s.Standing = standing; standing != serverv1.Standing_STANDING_ENROLLED {
			s.Exclusion = &serverv1.Exclusion{Reason: reason, Actor: "ann", Since: ago(0)}
		}
		return s
	}
	return nil
}
