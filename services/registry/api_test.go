package registry

import (
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
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
)

// furnished is a site with one record of each kind that others may name.
func furnished(t *testing.T) *site {
	s, _ := installed(t, "web")
	s.put(record.Create(&applicationv1.Application{Name: "sdc"}))
	s.put(record.Create(&environmentv1.Environment{Name: "prod"}))
	s.put(record.Create(&agentv1.Agent{
		Name:         "cron",
		Kind:         agentv1.Kind_KIND_FILES,
		Application:  "sdc",
		Dependencies: []string{"web"},
	}))
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
	{"CheckFleet", "INVALID", &registryv1.CheckFleetRequest{Page: &apiv1.Page{Cursor: "nowhere"}}},
	{"CheckFleet", "INVALID", &registryv1.CheckFleetRequest{Page: &apiv1.Page{Limit: 5000}}},
	{"CheckFleet", "UNKNOWN_AGENT", &registryv1.CheckFleetRequest{Agent: "ghost"}},
	{"QuarantineServer", "EMPTY_SELECTOR", &registryv1.QuarantineServerRequest{}},
	{"QuarantineServer", "UNKNOWN_SERVER", &registryv1.QuarantineServerRequest{Server: "web-9"}},
	{"QuarantineServer", "NOT_ALIVE", &registryv1.QuarantineServerRequest{Server: "later"}},
	{"ReleaseServer", "NOT_ALIVE", &registryv1.ReleaseServerRequest{Server: "later"}},
	{"RevokeServer", "NOT_ALIVE", &registryv1.RevokeServerRequest{Server: "later"}},
	{"RevokeServer", "INVALID", &registryv1.RevokeServerRequest{Server: "one", Reason: "a\nb"}},
	{"RecordCleanUp", "UNKNOWN_SERVER", cleanUp("unknown", 1, nil)},
	{"CreateToken", "INVALID", &registryv1.CreateTokenRequest{Name: "a"}},
	{"CreateToken", "UNKNOWN_ENVIRONMENT", &registryv1.CreateTokenRequest{Name: "a", Uses: 1, Environment: "none"}},
	{"RevokeToken", "UNKNOWN_TOKEN", &registryv1.RevokeTokenRequest{Name: "takn"}},
	{"AddBlocks", "INVALID", &registryv1.AddBlocksRequest{Agent: "web", Version: "1.0.0"}},
	{"PutRecord", "EMPTY_SELECTOR", record.Set(&holdv1.Hold{Agent: "web"})},
	{"SetDefault", "INVALID", &registryv1.SetDefaultRequest{Environment: "prod", Agent: "web"}},
	{"MoveServers", "EMPTY_SELECTOR", &registryv1.MoveServersRequest{Environment: "prod"}},
	{"DeleteRecord", "IN_USE", record.Delete(ledger.Agent, "vm", 0)},
	{"ListAvailable", "UNKNOWN_AGENT", &registryv1.ListAvailableRequest{Agent: "wep"}},
	{"ListAvailable", "UNKNOWN_ENVIRONMENT", &registryv1.ListAvailableRequest{Environment: "prot"}},
	{"PutRecord", "EXISTS", record.Create(&agentv1.Agent{Name: "web", Kind: daemon})},
	{"PutRecord", "BAD_NAME", record.Create(&agentv1.Agent{Name: "We b", Kind: daemon})},
	{"PutRecord", "BAD_NAME", record.Create(&agentv1.Agent{})},
	{"PutRecord", "BAD_NAME", record.Create(&environmentv1.Environment{Name: "all"})},
	{"PutRecord", "BAD_NAME", record.Create( // without a reporter
		&agentv1.Agent{Name: "new", Kind: agentv1.Kind_KIND_EXTERNAL})},
	{"PutRecord", "UNSUPPORTED_KIND", record.Create(&agentv1.Agent{Name: "new", Kind: daemon, Reporter: "lister"})},
	{"PutRecord", "INVALID", record.Create(&agentv1.Agent{
		Name: "new", Kind: agentv1.Kind_KIND_EXTERNAL, Reporter: "lister",
		ReportWithin: durationpb.New(time.Second),
	})},
	{"ReportExternal", "INVALID", &registryv1.ReportExternalRequest{
		Agent: "web", Found: make([]*externalv1.Found, 501),
	}},
	{"ReportExternal", "NOT_REPORTER", &registryv1.ReportExternalRequest{Agent: "web"}},
	{"CountInstances", "MALFORMED", &registryv1.CountInstancesRequest{
		Filter: &registryv1.ListInstancesRequest{Stale: true, WithExternal: true},
	}},
	{"PutRecord", "INVALID", record.Create(&agentv1.Agent{Name: "new"})},
	{"PutRecord", "INVALID", record.Create(&agentv1.Agent{Name: "executor", Kind: daemon})},
	{
		"PutRecord", "NOT_FOUND",
		record.Create(&agentv1.Agent{Name: "new", Kind: daemon, Application: "sdd"}),
	},
	{
		"PutRecord", "UNKNOWN_AGENT",
		record.Create(&agentv1.Agent{Name: "new", Kind: daemon, Dependencies: []string{"wep"}}),
	},
	{
		"PutRecord", "DEPENDENCY_CYCLE",
		record.Create(&agentv1.Agent{Name: "new", Kind: daemon, Dependencies: []string{"new"}}),
	},
	{
		"PutRecord", "DEPENDENCY_CYCLE",
		record.Change(&agentv1.Agent{Name: "web", Kind: daemon, Dependencies: []string{"cron"}}),
	},
	{
		"PutRecord", "FIELD_FIXED",
		record.Change(&agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_FILES}),
	},
	{
		"PutRecord", "UNKNOWN_AGENT",
		record.Change(&agentv1.Agent{Name: "wep", Kind: daemon}),
	},
	{"DeleteRecord", "IN_USE", record.Delete(ledger.Agent, "web", 0)},
	{"DeleteRecord", "UNKNOWN_AGENT", record.Delete(ledger.Agent, "nothing-like-it", 0)},
	{
		"PutRecord", "EXISTS",
		record.Create(&applicationv1.Application{Name: "sdc"}),
	},
	{"PutRecord", "BAD_NAME", record.Create(&applicationv1.Application{})},
	{
		"PutRecord", "BAD_METADATA",
		record.Create(&applicationv1.Application{Name: "m", Metadata: map[string]string{"a-b": "c"}}),
	},
	{
		"PutRecord", "BAD_METADATA",
		record.Change(&applicationv1.Application{Name: "sdc", Metadata: map[string]string{"a": "\x00"}}),
	},
	{
		"PutRecord", "NOT_FOUND",
		record.Change(&applicationv1.Application{Name: "manta"}),
	},
	{"PutRecord", "BAD_NAME", record.Change(&applicationv1.Application{})},
	{
		"PutRecord", "BAD_METADATA",
		record.Create(&environmentv1.Environment{Name: "m", Metadata: map[string]string{"": "c"}}),
	},
	{
		"PutRecord", "BAD_METADATA",
		record.Change(&environmentv1.Environment{Name: "prod", Metadata: map[string]string{"": "c"}}),
	},
	{
		"PutRecord", "UNKNOWN_ENVIRONMENT",
		record.Change(&environmentv1.Environment{Name: "test"}),
	},
	{
		"PutRecord", "BAD_NAME",
		record.Change(&environmentv1.Environment{Name: "prod", Channel: "A b"}),
	},
	{
		"PutRecord", "BAD_METADATA",
		record.Change(&agentv1.Agent{Name: "web", Kind: daemon, Metadata: map[string]string{"a.b": "c"}}),
	},
	{
		"PutRecord", "INVALID",
		record.Change(&environmentv1.Environment{
			Name: "prod", Windows: []*environmentv1.Window{{Minutes: 60, Zone: "Mars/Olympus"}},
		}),
	},
	{"DeleteRecord", "IN_USE", record.Delete(ledger.Application, "sdc", 0)},
	{"DeleteRecord", "NOT_FOUND", record.Delete(ledger.Application, "manta", 0)},
	{
		"PutRecord", "EXISTS",
		record.Create(&environmentv1.Environment{Name: "prod"}),
	},
	{"DeleteRecord", "IN_USE", record.Delete(ledger.Environment, "prod", 0)},
	{"DeleteRecord", "UNKNOWN_ENVIRONMENT", record.Delete(ledger.Environment, "test", 0)},
	{"InviteServer", "EXISTS", &registryv1.InviteServerRequest{Name: "one"}},
	{"InviteServer", "BAD_NAME", &registryv1.InviteServerRequest{Name: "two", ServerId: "two"}},
	{
		"InviteServer", "INVALID",
		&registryv1.InviteServerRequest{Name: "two", Owner: &ownerv1.FieldOwner{Name: "A b"}},
	},
	{
		"ChangeServer", "INVALID", &registryv1.ChangeServerRequest{
			Server: "one", Owner: &ownerv1.FieldOwner{Name: "site", Fields: map[string]uint64{"": 1}},
		},
	},
	{
		"PutRecord", "INVALID", record.Change(&environmentv1.Environment{
			Name: "prod", Owners: []*ownerv1.FieldOwner{{Name: "a"}, {Name: "a"}},
		}),
	},
	{"InviteServer", "BAD_NAME", &registryv1.InviteServerRequest{Name: "A b"}},
	{"InviteServer", "BAD_NAME", &registryv1.InviteServerRequest{Name: "all"}},
	{
		"InviteServer", "INVALID",
		&registryv1.InviteServerRequest{Name: "two", ValidFor: durationpb.New(31 * 24 * time.Hour)},
	},
	{
		"InviteServer", "INVALID",
		&registryv1.InviteServerRequest{Name: "two", Labels: map[string]string{"rack/1": "1"}},
	},
	{"InviteServer", "UNKNOWN_ENVIRONMENT", &registryv1.InviteServerRequest{Name: "two", Environment: "prodd"}},
	{"ChangeServer", "UNKNOWN_SERVER", &registryv1.ChangeServerRequest{Server: "ones"}},
	{"ChangeServer", "EMPTY_SELECTOR", &registryv1.ChangeServerRequest{}},
	{
		"ChangeServer", "INVALID",
		&registryv1.ChangeServerRequest{Server: "one", SetLabels: map[string]string{"port": "1,rack=b"}},
	},
	{
		"ChangeServer", "INVALID",
		&registryv1.ChangeServerRequest{Server: "one", SetLabels: map[string]string{"a": "\n"}},
	},
	{"ForgetServer", "NOT_DEAD", &registryv1.ForgetServerRequest{Server: "one"}},
	{"GetServer", "UNKNOWN_SERVER", &registryv1.GetServerRequest{Server: "ones"}},
	{"ListServers", "INVALID", &registryv1.ListServersRequest{Page: &apiv1.Page{Limit: 1001}}},
	{"ListServers", "UNKNOWN_ENVIRONMENT", &registryv1.ListServersRequest{Environment: "prodd"}},
	{"ListInstances", "UNKNOWN_AGENT", &registryv1.ListInstancesRequest{Agent: "wep"}},
	{"ListInstances", "UNKNOWN_SERVER", &registryv1.ListInstancesRequest{Server: "ones"}},
	{
		"GetIntent", "INVALID",
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
	if kept, err := filepath.Glob(filepath.Join(store, "registry-*.view")); err != nil || len(kept) != 1 {
		t.Fatalf("snapshots %v (%v), want one", kept, err)
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
		gotApp := s.put(record.Change(app)).Record.GetApplication()
		gotEnv := s.put(record.Change(env)).Record.GetEnvironment()
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
