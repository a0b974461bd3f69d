package operator

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

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
		}}, nil
	})
	handle(t, f, s, "ListSessions", func(*accessv1.ListSessionsRequest) (*accessv1.ListSessionsResponse, error) {
		return &accessv1.ListSessionsResponse{}, nil
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
		if q.GetName() == "zoe" {
			return nil, unknown("UNKNOWN_USER", "user", "zoe", "bob")
		}
		return &accessv1.RevokeUserResponse{ShutOut: q.GetName() != "slow", User: &userv1.User{
			Name: q.GetName(), Role: userv1.Role_ROLE_VIEWER, State: userv1.State_STATE_REVOKED,
			CreatedAt: ago(time.Hour), Reason: q.GetReason(),
		}}, nil
	})
}
