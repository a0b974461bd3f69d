package operator

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

// standings answers what shuts servers out. web-2 is revoked already.
func (f *fakes) standings(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListLobby", func(*registryv1.ListLobbyRequest) (*registryv1.ListLobbyResponse, error) {
		return &registryv1.ListLobbyResponse{Open: true}, nil
	})
	handle(t, f, s, "GetRestoreStatus",
		func(*registryv1.GetRestoreStatusRequest) (*registryv1.GetRestoreStatusResponse, error) {
			return &registryv1.GetRestoreStatusResponse{Losses: f.losses}, nil
		})
	handle(t, f, s, "QuarantineServer",
		func(q *registryv1.QuarantineServerRequest) (*registryv1.QuarantineServerResponse, error) {
			if q.GetServer() == web2 {
				return nil, web2Revoked()
			}
			now := stand(q.GetServer(), serverv1.Standing_STANDING_QUARANTINED, q.GetReason())
			return &registryv1.QuarantineServerResponse{Server: now}, nil
		})
	handle(t, f, s, "ReleaseServer",
		func(q *registryv1.ReleaseServerRequest) (*registryv1.ReleaseServerResponse, error) {
			if q.GetServer() == web2 { // it was not quarantined
				return &registryv1.ReleaseServerResponse{Server: servers()[1]}, nil
			}
			return &registryv1.ReleaseServerResponse{
				Server: stand(q.GetServer(), serverv1.Standing_STANDING_ENROLLED, ""),
			}, nil
		})
	handle(t, f, s, "ReplaceServer",
		func(q *registryv1.ReplaceServerRequest) (*registryv1.ReplaceServerResponse, error) {
			if q.GetServer() == web1 && !q.GetForce() {
				return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
					Code: "SERVER_ONLINE", Message: "server web-1 is online, so its machine is not gone",
					Try: "garrison server enroll web-1 --replace --force",
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

func web2Revoked() error {
	return fault.Refuse(fault.Conflict, &apiv1.Refusal{
		Code: "SERVER_REVOKED", Message: "the credentials of server web-2 are revoked",
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

// annKey is the public half of the seed in the sessions that ask who the caller is.
const annKey = "UAB2CB576PHBBPQ5ODORRZ2LYCMWPZGWGCN2KDK7DXOIMZASKUY3RLKK"

func (f *fakes) access(t testing.TB, c *bus.Conn) {
	s := service(t, f, c, client.Services[ledger.Access], "v1.0.0")
	handle(t, f, s, "ListUsers", func(*accessv1.ListUsersRequest) (*accessv1.ListUsersResponse, error) {
		return &accessv1.ListUsersResponse{Users: []*userv1.User{
			{
				Name: "ann", Role: userv1.Role_ROLE_OPERATOR, State: userv1.State_STATE_ACTIVE, CreatedBy: "operator",
				CreatedAt: ago(24 * time.Hour),
				Keys: []*userv1.Key{
					{PublicKey: annKey, Role: userv1.Role_ROLE_OPERATOR},
					{PublicKey: "UABCDEFGHIJKLMNOP", ExpiresAt: ago(-89 * 24 * time.Hour)},
				},
			},
			{
				Name: "bob", Role: userv1.Role_ROLE_VIEWER, State: userv1.State_STATE_REVOKED, CreatedBy: "operator",
				CreatedAt: ago(48 * time.Hour), RevokedAt: ago(time.Hour), RevokedBy: "operator", Reason: "left",
			},
			{Name: "root", Role: userv1.Role_ROLE_ADMIN, State: userv1.State_STATE_ACTIVE, CreatedAt: ago(0)},
		}}, nil
	})
	handle(t, f, s, "ListSessions", func(*accessv1.ListSessionsRequest) (*accessv1.ListSessionsResponse, error) {
		return &accessv1.ListSessionsResponse{}, nil
	})
	handle(t, f, s, "GetRestored", func(*accessv1.GetRestoredRequest) (*accessv1.GetRestoredResponse, error) {
		return &accessv1.GetRestoredResponse{Restored: f.restored}, nil
	})
	handle(t, f, s, "GetBus", func(*accessv1.GetBusRequest) (*accessv1.GetBusResponse, error) {
		return &accessv1.GetBusResponse{
			Servers: []*accessv1.BusServer{
				{Name: "bus-1", Version: "2.15.2", Answers: true, Leads: true, SyncAlways: true, UsedBytes: 5 << 20},
				{Name: "bus-2", Version: "2.15.2", Answers: true, UsedBytes: 5 << 20, FreeBytes: proto.Uint64(1 << 30)},
				{Name: "bus-3"},
			},
			Streams: []*accessv1.BusStream{{
				Name: "LEDGER", Replicas: 3, Leader: "bus-1", Messages: 90, Bytes: 4 << 20, LastSequence: 90,
				Copies: []*accessv1.BusReplica{
					{Server: "bus-1", Current: true, LastSequence: 90},
					{Server: "bus-2", Lag: 2, LastSequence: 88},
					{Server: "bus-3", Offline: true, Lag: 40},
				},
			}},
			Alarms: []*accessv1.BusAlarm{{
				Cause: "server-away", Of: "bus-3", Text: "the server does not answer", Cure: "start the server",
			}},
		}, nil
	})
	handle(t, f, s, "CreateUser", func(q *accessv1.CreateUserRequest) (*accessv1.CreateUserResponse, error) {
		if q.GetName() == "ann" {
			return nil, fault.Refusef(fault.Conflict, "EXISTS", "user ann exists, as operator").From(ledger.Access)
		}
		expires := timestamppb.New(noon.Add(q.GetValidFor().AsDuration()))
		return &accessv1.CreateUserResponse{Jwt: "J", User: &userv1.User{
			Name: q.GetName(), Role: q.GetRole(), State: userv1.State_STATE_ACTIVE, CreatedAt: ago(0), CreatedBy: "ann",
			Keys: []*userv1.Key{{PublicKey: "UABCDEFGHIJKLMNOP", ExpiresAt: expires}},
		}}, nil
	})
	handle(t, f, s, "RevokeUser", func(q *accessv1.RevokeUserRequest) (*accessv1.RevokeUserResponse, error) {
		switch {
		case q.GetName() == "zoe":
			return nil, unknown("NOT_FOUND", "user", "zoe", "bob")
		case q.GetName() == "root" && !q.GetForce():
			return nil, fault.Refusef(fault.Invalid, "LAST_ADMIN", "root is the last admin").From("access")
		case q.GetName() == "ann": // the caller: the bus ends the connection, and the client says why
			return nil, fault.Refusef(fault.Denied, "LOGIN_REFUSED", "the bus refused the login of ann").From("bus")
		}
		return &accessv1.RevokeUserResponse{ShutOut: q.GetName() != "slow", User: &userv1.User{
			Name: q.GetName(), Role: userv1.Role_ROLE_VIEWER, State: userv1.State_STATE_REVOKED,
			CreatedAt: ago(time.Hour), Reason: q.GetReason(),
		}}, nil
	})
}
