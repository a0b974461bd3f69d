package registry

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	externalv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/external/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// furnished is a site with one record of each kind that others may name.
func furnished(t *testing.T) *site {
	s, _ := installed(t, "web")
	must[*registryv1.CreateApplicationResponse](s, "CreateApplication",
		&registryv1.CreateApplicationRequest{Application: &applicationv1.Application{Name: "sdc"}})
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment",
		&registryv1.CreateEnvironmentRequest{Environment: &environmentv1.Environment{Name: "prod"}})
	must[*registryv1.CreateAgentResponse](s, "CreateAgent", &registryv1.CreateAgentRequest{
		Agent: &agentv1.Agent{
			Name:         "cron",
			Kind:         agentv1.Kind_KIND_FILES,
			Application:  "sdc",
			Dependencies: []string{"web"},
		}})
	must[*registryv1.ChangeServerResponse](s, "ChangeServer",
		&registryv1.ChangeServerRequest{Server: "one", Environment: proto.String("prod")})
	s.invite("later")
	s.vms(time.Hour)
	s.reportVMs(nil, good("a"))
	return s
}

const daemon = agentv1.Kind_KIND_DAEMON

// wrongRequests are refused, each with its code.
var wrongRequests = []struct {
	method, code string
	ask          proto.Message
}{
	{"CheckFleet", "BAD_CURSOR", &registryv1.CheckFleetRequest{Page: &apiv1.Page{Cursor: "nowhere"}}},
	{"CheckFleet", "BAD_PAGE", &registryv1.CheckFleetRequest{Page: &apiv1.Page{Limit: 5000}}},
	{"CheckFleet", "UNKNOWN_AGENT", &registryv1.CheckFleetRequest{Agent: "ghost"}},
	{"QuarantineServer", "EMPTY_SELECTOR", &registryv1.QuarantineServerRequest{}},
	{"QuarantineServer", "UNKNOWN_SERVER", &registryv1.QuarantineServerRequest{Server: "web-9"}},
	{"QuarantineServer", "NOT_ALIVE", &registryv1.QuarantineServerRequest{Server: "later"}},
	{"ReleaseServer", "NOT_ALIVE", &registryv1.ReleaseServerRequest{Server: "later"}},
	{"RevokeServer", "NOT_ALIVE", &registryv1.RevokeServerRequest{Server: "later"}},
	{"RevokeServer", "BAD_REASON", &registryv1.RevokeServerRequest{Server: "one", Reason: "a\nb"}},
	{"RecordCleanUp", "UNKNOWN_SERVER", cleanUp("unknown", 1, nil)},
	{"CreateToken", "BAD_USES", &registryv1.CreateTokenRequest{Name: "a"}},
	{"CreateToken", "UNKNOWN_ENVIRONMENT", &registryv1.CreateTokenRequest{Name: "a", Uses: 1, Environment: "none"}},
	{"RevokeToken", "UNKNOWN_TOKEN", &registryv1.RevokeTokenRequest{Name: "takn"}},
	{"AddBlocks", "BAD_BLOCK", &registryv1.AddBlocksRequest{Agent: "web", Version: "1.0.0"}},
	{"SetHold", "EMPTY_SELECTOR", &registryv1.SetHoldRequest{Agent: "web"}},
	{"SetDefault", "BAD_REACH", &registryv1.SetDefaultRequest{Environment: "prod", Agent: "web"}},
	{"MoveServers", "EMPTY_SELECTOR", &registryv1.MoveServersRequest{Environment: "prod"}},
	{"DeleteAgent", "IN_USE", &registryv1.DeleteAgentRequest{Name: "vm"}},
	{"ListAvailable", "UNKNOWN_AGENT", &registryv1.ListAvailableRequest{Agent: "wep"}},
	{"ListAvailable", "UNKNOWN_ENVIRONMENT", &registryv1.ListAvailableRequest{Environment: "prot"}},
	{"CreateAgent", "EXISTS", &registryv1.CreateAgentRequest{Agent: &agentv1.Agent{Name: "web", Kind: daemon}}},
	{"CreateAgent", "BAD_NAME", &registryv1.CreateAgentRequest{Agent: &agentv1.Agent{Name: "We b", Kind: daemon}}},
	{"CreateAgent", "BAD_NAME", &registryv1.CreateAgentRequest{}},
	{"CreateAgent", "BAD_NAME", &registryv1.CreateAgentRequest{ // without a reporter
		Agent: &agentv1.Agent{Name: "new", Kind: agentv1.Kind_KIND_EXTERNAL},
	}},
	{"CreateAgent", "UNSUPPORTED_KIND", &registryv1.CreateAgentRequest{
		Agent: &agentv1.Agent{Name: "new", Kind: daemon, Reporter: "lister"},
	}},
	{"CreateAgent", "BAD_DURATION", &registryv1.CreateAgentRequest{Agent: &agentv1.Agent{
		Name: "new", Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "lister",
		ReportWithin: durationpb.New(time.Second),
	}}},
	{"ReportExternal", "BAD_REPORT", &registryv1.ReportExternalRequest{
		Agent: "web", Found: make([]*externalv1.Found, 501),
	}},
	{"ReportExternal", "NOT_REPORTER", &registryv1.ReportExternalRequest{Agent: "web"}},
	{"ListExternals", "UNKNOWN_AGENT", &registryv1.ListExternalsRequest{Agent: "wep"}},
	{"CreateAgent", "BAD_KIND", &registryv1.CreateAgentRequest{Agent: &agentv1.Agent{Name: "new"}}},
	{"CreateAgent", "BAD_KIND", &registryv1.CreateAgentRequest{Agent: &agentv1.Agent{Name: "executor", Kind: daemon}}},
	{
		"CreateAgent", "UNKNOWN_APPLICATION",
		&registryv1.CreateAgentRequest{Agent: &agentv1.Agent{Name: "new", Kind: daemon, Application: "sdd"}},
	},
	{
		"CreateAgent", "UNKNOWN_AGENT",
		&registryv1.CreateAgentRequest{
			Agent: &agentv1.Agent{Name: "new", Kind: daemon, Dependencies: []string{"wep"}},
		},
	},
	{
		"CreateAgent", "DEPENDENCY_CYCLE",
		&registryv1.CreateAgentRequest{
			Agent: &agentv1.Agent{Name: "new", Kind: daemon, Dependencies: []string{"new"}},
		},
	},
	{
		"ChangeAgent", "DEPENDENCY_CYCLE",
		&registryv1.ChangeAgentRequest{
			Agent: &agentv1.Agent{Name: "web", Kind: daemon, Dependencies: []string{"cron"}},
		},
	},
	{
		"ChangeAgent", "KIND_FIXED",
		&registryv1.ChangeAgentRequest{Agent: &agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_FILES}},
	},
	{
		"ChangeAgent", "UNKNOWN_AGENT",
		&registryv1.ChangeAgentRequest{Agent: &agentv1.Agent{Name: "wep", Kind: daemon}},
	},
	{"DeleteAgent", "IN_USE", &registryv1.DeleteAgentRequest{Name: "web"}},
	{"DeleteAgent", "UNKNOWN_AGENT", &registryv1.DeleteAgentRequest{Name: "nothing-like-it"}},
	{
		"CreateApplication", "EXISTS",
		&registryv1.CreateApplicationRequest{Application: &applicationv1.Application{Name: "sdc"}},
	},
	{"CreateApplication", "BAD_NAME", &registryv1.CreateApplicationRequest{}},
	{
		"CreateApplication", "BAD_METADATA",
		&registryv1.CreateApplicationRequest{
			Application: &applicationv1.Application{Name: "m", Metadata: map[string]string{"a-b": "c"}},
		},
	},
	{
		"ChangeApplication", "BAD_METADATA",
		&registryv1.ChangeApplicationRequest{
			Application: &applicationv1.Application{Name: "sdc", Metadata: map[string]string{"a": "\x00"}},
		},
	},
	{
		"ChangeApplication", "UNKNOWN_APPLICATION",
		&registryv1.ChangeApplicationRequest{Application: &applicationv1.Application{Name: "manta"}},
	},
	{"ChangeApplication", "BAD_NAME", &registryv1.ChangeApplicationRequest{}},
	{
		"CreateEnvironment", "BAD_METADATA",
		&registryv1.CreateEnvironmentRequest{
			Environment: &environmentv1.Environment{Name: "m", Metadata: map[string]string{"": "c"}},
		},
	},
	{
		"ChangeEnvironment", "BAD_METADATA",
		&registryv1.ChangeEnvironmentRequest{
			Environment: &environmentv1.Environment{Name: "prod", Metadata: map[string]string{"": "c"}},
		},
	},
	{
		"ChangeEnvironment", "UNKNOWN_ENVIRONMENT",
		&registryv1.ChangeEnvironmentRequest{Environment: &environmentv1.Environment{Name: "test"}},
	},
	{
		"ChangeEnvironment", "BAD_NAME",
		&registryv1.ChangeEnvironmentRequest{Environment: &environmentv1.Environment{Name: "prod", Channel: "A b"}},
	},
	{
		"ChangeAgent", "BAD_METADATA",
		&registryv1.ChangeAgentRequest{
			Agent: &agentv1.Agent{Name: "web", Kind: daemon, Metadata: map[string]string{"a.b": "c"}},
		},
	},
	{
		"ChangeEnvironment", "BAD_WINDOW",
		&registryv1.ChangeEnvironmentRequest{Environment: &environmentv1.Environment{
			Name: "prod", Windows: []*environmentv1.Window{{Minutes: 60, Zone: "Mars/Olympus"}},
		}},
	},
	{"DeleteApplication", "IN_USE", &registryv1.DeleteApplicationRequest{Name: "sdc"}},
	{"DeleteApplication", "UNKNOWN_APPLICATION", &registryv1.DeleteApplicationRequest{Name: "manta"}},
	{
		"CreateEnvironment", "EXISTS",
		&registryv1.CreateEnvironmentRequest{Environment: &environmentv1.Environment{Name: "prod"}},
	},
	{"DeleteEnvironment", "IN_USE", &registryv1.DeleteEnvironmentRequest{Name: "prod"}},
	{"DeleteEnvironment", "UNKNOWN_ENVIRONMENT", &registryv1.DeleteEnvironmentRequest{Name: "test"}},
	{"InviteServer", "EXISTS", &registryv1.InviteServerRequest{Name: "one"}},
	{"InviteServer", "BAD_NAME", &registryv1.InviteServerRequest{Name: "two", ServerId: "two"}},
	{
		"InviteServer", "BAD_OWNER",
		&registryv1.InviteServerRequest{Name: "two", Owner: &ownerv1.FieldOwner{Name: "A b"}},
	},
	{
		"ChangeServer", "BAD_OWNER", &registryv1.ChangeServerRequest{
			Server: "one", Owner: &ownerv1.FieldOwner{Name: "site", Fields: map[string]uint64{"": 1}},
		},
	},
	{
		"ChangeEnvironment", "BAD_OWNER", &registryv1.ChangeEnvironmentRequest{
			Environment: &environmentv1.Environment{
				Name: "prod", Owners: []*ownerv1.FieldOwner{{Name: "a"}, {Name: "a"}},
			},
		},
	},
	{"InviteServer", "BAD_NAME", &registryv1.InviteServerRequest{Name: "A b"}},
	{"InviteServer", "BAD_NAME", &registryv1.InviteServerRequest{Name: "all"}},
	{
		"InviteServer", "BAD_DURATION",
		&registryv1.InviteServerRequest{Name: "two", ValidFor: durationpb.New(31 * 24 * time.Hour)},
	},
	{
		"InviteServer", "BAD_LABEL",
		&registryv1.InviteServerRequest{Name: "two", Labels: map[string]string{"rack/1": "1"}},
	},
	{"InviteServer", "UNKNOWN_ENVIRONMENT", &registryv1.InviteServerRequest{Name: "two", Environment: "prodd"}},
	{"ChangeServer", "UNKNOWN_SERVER", &registryv1.ChangeServerRequest{Server: "ones"}},
	{"ChangeServer", "EMPTY_SELECTOR", &registryv1.ChangeServerRequest{}},
	{
		"ChangeServer", "BAD_LABEL",
		&registryv1.ChangeServerRequest{Server: "one", SetLabels: map[string]string{"port": "1,rack=b"}},
	},
	{
		"ChangeServer", "BAD_LABEL",
		&registryv1.ChangeServerRequest{Server: "one", SetLabels: map[string]string{"a": "\n"}},
	},
	{"ForgetServer", "NOT_DEAD", &registryv1.ForgetServerRequest{Server: "one"}},
	{"GetServer", "UNKNOWN_SERVER", &registryv1.GetServerRequest{Server: "ones"}},
	{"ListServers", "BAD_PAGE", &registryv1.ListServersRequest{Page: &apiv1.Page{Limit: 1001}}},
	{"ListServers", "UNKNOWN_ENVIRONMENT", &registryv1.ListServersRequest{Environment: "prodd"}},
	{"ListInstances", "UNKNOWN_AGENT", &registryv1.ListInstancesRequest{Agent: "wep"}},
	{"ListInstances", "UNKNOWN_SERVER", &registryv1.ListInstancesRequest{Server: "ones"}},
	{
		"GetIntent", "BAD_WAIT",
		&registryv1.GetIntentRequest{
			IntentId: "00000000-0000-0000-0000-000000000000", Wait: durationpb.New(time.Minute),
		},
	},
}

func TestAWrongRequestIsRefusedWithACode(t *testing.T) {
	t.Parallel()
	s := furnished(t)
	for _, c := range wrongRequests {
		t.Run(c.method+" "+c.code, func(t *testing.T) {
			if have := s.code(c.method, c.ask); have != c.code {
				t.Errorf("code %s; want %s", have, c.code)
			}
		})
	}
}

func TestASnapshotIsWrittenAndReadAgain(t *testing.T) {
	t.Parallel()
	s := furnished(t)
	store := t.TempDir()
	run := func() []byte {
		r, err := New(
			Config{Conn: s.bus.Dial(t, ledger.Registry), Signer: signer{}, Store: store, BeatInterval: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		stop := bustest.Go(t, r.Run)
		<-r.Ready()
		_, data, err := r.follower.Canonical()
		if err != nil {
			t.Fatal(err)
		}
		stop()
		return data
	}
	first := run()
	if _, err := os.Stat(filepath.Join(store, "registry.view")); err != nil {
		t.Fatal(err)
	}
	if second := run(); string(first) != string(second) {
		t.Error("the view read from a snapshot differs")
	}
}

func TestAChangeReplacesAGroupsRecord(t *testing.T) {
	t.Parallel()
	s := furnished(t)
	app := &applicationv1.Application{
		Name:        "sdc",
		Description: "of data centres",
		Metadata:    map[string]string{"level": "info"},
	}
	env := &environmentv1.Environment{Name: "prod", Channel: "release", Metadata: map[string]string{"level": "warn"}}
	for range 2 { // the second request changes nothing
		gotApp := must[*registryv1.ChangeApplicationResponse](s, "ChangeApplication",
			&registryv1.ChangeApplicationRequest{Application: app}).Application
		gotEnv := must[*registryv1.ChangeEnvironmentResponse](s, "ChangeEnvironment",
			&registryv1.ChangeEnvironmentRequest{Environment: env}).Environment
		if gotApp.CreatedAt == nil || gotApp.Description != app.Description || gotApp.Metadata["level"] != "info" {
			t.Errorf("the application is %v", gotApp)
		}
		if gotEnv.CreatedAt == nil || gotEnv.Channel != "release" || gotEnv.Metadata["level"] != "warn" {
			t.Errorf("the environment is %v", gotEnv)
		}
	}
	for noun, key := range map[ledger.Noun]string{ledger.Application: "sdc", ledger.Environment: "prod"} {
		if diff := cmp.Diff([]string{"created", "changed"}, names(s.facts(noun, key))); diff != "" {
			t.Errorf("%s: %s", noun, diff)
		}
	}
}
