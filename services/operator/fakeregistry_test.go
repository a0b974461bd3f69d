package operator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/facts"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
)

// secrets is a fixed key of secrets, so that sealed values are the same in each run.
var secrets = func() *secret.Key {
	k, err := secret.ParseKey("c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0c2U=")
	if err != nil {
		panic(err)
	}
	return k
}()

func (f *fakes) registry(t testing.TB, c *bus.Conn) {
	s := service(t, f, c, client.Services[ledger.Registry], "v1.0.0")
	f.check(t, s)
	f.dryRegistry(t, s)
	f.writers(t, s)
	f.servers(t, s)
	f.invitations(t, s)
	f.instances(t, s)
	f.logs(t, s, c)
	if err := facts.Serve(s, c); err != nil {
		t.Fatal(err)
	}
	handle(t, f, s, "SealSecrets", func(q *registryv1.SealSecretsRequest) (*registryv1.SealSecretsResponse, error) {
		out := map[string]string{}
		for name, value := range q.GetValues() {
			out[name] = secrets.Seal(name, value)
		}
		return &registryv1.SealSecretsResponse{Sealed: out}, nil
	})
	f.records(t, s)
	f.defaults(t, s)
	f.rollouts(t, s)
	f.cleanUps(t, s)
	f.standings(t, s)
	f.candidates(t, s)
	f.changes(t, s)
	f.plans(t, s)
	handle(t, f, s, "GetIntent", func(q *registryv1.GetIntentRequest) (*registryv1.GetIntentResponse, error) {
		if r := f.intent(q.GetIntentId()); r != nil {
			return &registryv1.GetIntentResponse{Intent: r}, nil
		}
		return nil, unknown("NOT_FOUND", "intent", q.GetIntentId(), "")
	})
	f.intentCalls(t, s)
	stop, err := c.Subscribe(topology.IntentSubjects, f.hear)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

func (f *fakes) servers(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListServers", func(q *registryv1.ListServersRequest) (*registryv1.ListServersResponse, error) {
		all := servers()
		if rack := q.GetOn().GetLabels()["rack"]; rack == "long" {
			return &registryv1.ListServersResponse{Servers: slices.Repeat(all[:1], 101)}, nil
		}
		if q.GetLeaked() || q.GetLife() == serverv1.Life_LIFE_DEAD {
			return deadServers(q), nil
		}
		if q.GetFound() {
			return &registryv1.ListServersResponse{Servers: []*serverv1.Server{foundServer()}}, nil
		}
		if q.GetPage().GetCursor() == "second" {
			return &registryv1.ListServersResponse{Servers: all[1:]}, nil
		}
		return &registryv1.ListServersResponse{Servers: all[:1], NextCursor: "second"}, nil
	})
	handle(t, f, s, "CountServers", countServers)
	handle(t, f, s, "GetServer", func(q *registryv1.GetServerRequest) (*registryv1.GetServerResponse, error) {
		for _, found := range append(append(servers(), leaving()...), foundServer()) {
			if found.Id == q.Server || found.Name == q.Server {
				return &registryv1.GetServerResponse{Server: f.withCleanUp(found)}, nil
			}
		}
		return nil, unknown("UNKNOWN_SERVER", "server", q.Server, "web-1")
	})
	handle(t, f, s, "ForgetServer", func(q *registryv1.ForgetServerRequest) (*registryv1.ForgetServerResponse, error) {
		for _, found := range leaving() {
			if (found.Name == q.Server || found.Id == q.Server) && (q.Leak || found.Name == "gone-2") {
				return &registryv1.ForgetServerResponse{ServerId: found.Id, Leaks: found.Duties}, nil
			}
		}
		return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: "LEAKED", Message: "something may be left",
			Try: "garrison server clean " + q.Server + " --ssh USER@HOST",
		})
	})
}

func (f *fakes) invitations(t testing.TB, s *bus.Service) {
	handle(t, f, s, "CreateToken", func(q *registryv1.CreateTokenRequest) (*registryv1.CreateTokenResponse, error) {
		token := tokenNamed(q.GetName())
		token.Uses = q.GetUses()
		return &registryv1.CreateTokenResponse{Token: token, Secret: pooledSecret(q.GetName())}, nil
	})
	handle(t, f, s, "ListTokens", func(q *registryv1.ListTokensRequest) (*registryv1.ListTokensResponse, error) {
		return &registryv1.ListTokensResponse{Tokens: []*tokenv1.Token{tokenNamed("rack-a")}}, nil
	})
	handle(t, f, s, "RevokeToken", func(q *registryv1.RevokeTokenRequest) (*registryv1.RevokeTokenResponse, error) {
		return &registryv1.RevokeTokenResponse{Token: tokenNamed(q.GetName())}, nil
	})
	handle(t, f, s, "InviteServer", func(q *registryv1.InviteServerRequest) (*registryv1.InviteServerResponse, error) {
		return &registryv1.InviteServerResponse{
			ServerId:  web1,
			Again:     q.GetName() == "web-1",
			Token:     "garrison-1.secret-of-" + q.GetName() + "-" + listing.Pairs(q.GetLabels()),
			ExpiresAt: timestamppb.New(noon.Add(q.GetValidFor().AsDuration())),
		}, nil
	})
}

func (f *fakes) instances(t testing.TB, s *bus.Service) {
	handle(
		t,
		f,
		s,
		"ListInstances",
		func(q *registryv1.ListInstancesRequest) (*registryv1.ListInstancesResponse, error) {
			rows := instances(q.GetAgent())
			if q.GetWithExecutors() && (q.GetAgent() == "" || q.GetAgent() == "executor") {
				rows = append(rows, executors()...)
			}
			rows = slices.DeleteFunc(rows, func(r *registryv1.InstanceRow) bool {
				return q.GetServer() != "" && q.GetServer() != r.GetInstance().GetServerId() &&
					q.GetServer() != r.GetServerName()
			})
			return &registryv1.ListInstancesResponse{Instances: rows}, nil
		},
	)
}

// executors returns the executors of the servers, which were installed on their machines.
func executors() (rows []*registryv1.InstanceRow) {
	for _, s := range servers() {
		rows = append(rows, &registryv1.InstanceRow{
			ServerName: s.Name, Presence: s.Presence, ByHand: true, Instance: &instancev1.Instance{
				ServerId: s.Id, Agent: "executor", State: instancev1.State_STATE_CONVERGED, Since: s.Since,
				Observed: &imagev1.Ref{Version: s.GetSysinfo().GetExecutorVersion()},
			},
		})
	}
	return rows
}

// records answers about records, and keeps most of what is created and changed.
func (f *fakes) records(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListRecords", func(q *registryv1.ListRecordsRequest) (*registryv1.ListRecordsResponse, error) {
		resp := &registryv1.ListRecordsResponse{Noun: q.GetNoun()}
		switch ledger.Noun(q.GetNoun()) {
		case ledger.Agent:
			resp.Agents = f.agents
		case ledger.Application:
			resp.Applications = f.apps
		case ledger.Environment:
			resp.Environments = f.envs
		case ledger.LabelRule:
			resp.Rules = f.rules
		}
		return resp, nil
	})
	handle(t, f, s, "PutRecord", func(q *registryv1.PutRecordRequest) (*registryv1.PutRecordResponse, error) {
		create := q.GetExpect() == registryv1.Expect_EXPECT_ABSENT
		switch next := record.Body(q.GetRecord()).(type) {
		case *agentv1.Agent:
			return f.putAgent(next, create)
		case *applicationv1.Application:
			return f.putApplication(next, create)
		case *environmentv1.Environment:
			return f.putEnvironment(next, create)
		case *labelrulev1.LabelRule: // each matches two servers
			next.Revision, next.Matches, next.Owners = 7, 2, nil
			f.rules = []*labelrulev1.LabelRule{next}
			return &registryv1.PutRecordResponse{Record: q.GetRecord()}, nil
		}
		return nil, unknown("MALFORMED", "noun", "", "")
	})
	handle(t, f, s, "DeleteRecord", func(*registryv1.DeleteRecordRequest) (*registryv1.DeleteRecordResponse, error) {
		return nil, fault.Refuse(fault.Denied, &apiv1.Refusal{Code: "DENIED", Message: "not you"})
	})
}

func (f *fakes) putAgent(next *agentv1.Agent, create bool) (*registryv1.PutRecordResponse, error) {
	if create && next.GetName() == "taken" {
		return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{Code: "EXISTS", Message: "there is an agent \"taken\""})
	}
	if create && len(next.GetMetadata()) > 0 { // others are not remembered: there are scripts about an empty list
		f.agents = append(f.agents, next)
	}
	return &registryv1.PutRecordResponse{Record: record.Of(next)}, nil
}

func (f *fakes) putApplication(next *applicationv1.Application, create bool) (*registryv1.PutRecordResponse, error) {
	if create {
		next.Revision = 7
		f.apps = append(f.apps, next)
		return &registryv1.PutRecordResponse{Record: record.Of(next)}, nil
	}
	if have := f.apps[0].GetRevision(); next.GetRevision() != have {
		return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code:    "REVISION_CHANGED",
			Message: fmt.Sprintf("revision %d, not %d: bob changed metadata.level", have, next.GetRevision()),
		})
	}
	next.Revision, next.ChangedBy = next.Revision+1, "ann"
	f.apps = []*applicationv1.Application{next}
	return &registryv1.PutRecordResponse{Record: record.Of(next), Outdated: []*registryv1.Outdated{
		{
			Agent: "beacon", Instances: 3, LeftOut: 1,
			First: &apiv1.Refusal{Code: "SCHEMA_MISMATCH", Message: "why"},
		},
		{Agent: "resolver", Instances: 1},
	}}, nil
}

func (f *fakes) putEnvironment(next *environmentv1.Environment, create bool) (*registryv1.PutRecordResponse, error) {
	if create {
		f.envs = append(f.envs, next)
	} else if have := f.envs[0].GetRevision(); next.GetRevision() != have {
		return nil, fault.Refuse(fault.Conflict, &apiv1.Refusal{
			Code: "REVISION_CHANGED", Message: fmt.Sprintf("revision %d", have),
		})
	} else {
		f.envs = []*environmentv1.Environment{next}
	}
	return &registryv1.PutRecordResponse{Record: record.Of(next)}, nil
}

// pooledSecret returns what a server joins with.
func pooledSecret(name string) string { return trust.Token{Pool: name, Secret: "s", JWT: "j"}.String() }

// tokenNamed returns a pooled token with which web-1 and web-2 joined.
func tokenNamed(name string) *tokenv1.Token {
	return &tokenv1.Token{
		Name: name, State: tokenv1.State_STATE_ACTIVE, Uses: 40, Used: 2,
		ExpiresAt: timestamppb.New(noon.Add(time.Hour)), FromAddresses: []string{"10.0.0.0/8"},
	}
}

// deadServers returns the dead servers that a request lists. gone-3 is of the label rack=c alone.
func deadServers(q *registryv1.ListServersRequest) *registryv1.ListServersResponse {
	out := &registryv1.ListServersResponse{}
	for _, s := range leaving() {
		only := q.GetOn().GetLabels()["rack"]
		if s.GetLife() == serverv1.Life_LIFE_DEAD && (only == "" || only == "c" && s.GetName() == "gone-3") &&
			(!q.GetLeaked() || s.GetName() != "gone-2") {
			out.Servers = append(out.Servers, s)
		}
	}
	return out
}
