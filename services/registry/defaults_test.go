package registry

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

const (
	reachNew = environmentv1.Reach_REACH_NEW
	reachAll = environmentv1.Reach_REACH_ALL
)

func TestAServerThatEnrolsGetsWhatItsEnvironmentWants(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.setDefault("web", reachNew)
	d := s.setDefault("db", reachNew)
	id := s.join("one", "prod")
	s.untilInstalled("web", id)
	s.untilInstalled("db", id)

	wanted := s.facts(ledger.Instance, ledger.Key(id, "db"))[0]
	r := s.outcome(wanted.Request)
	if r.Actor != "alice" || r.Intent.GetSource().GetRevision() != d.Revision || r.Changed != 1 ||
		r.Intent.Source.Environment != "prod" {
		t.Errorf("the intent is %v; want one of alice, from the default", r)
	}
	if other := s.join("two", ""); s.wanted(other, "db") {
		t.Error("a server without an environment got an agent")
	}
}

func TestADefaultNeverInstallsTwiceWhateverRunsAndRestarts(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	second, stopSecond := s.registry()
	s.setDefault("db", reachNew)
	var ids []string
	for n := range 20 {
		ids = append(ids, s.join(fmt.Sprintf("s%d", n), "prod"))
	}
	s.untilInstalled("db", ids...)
	s.settled(s.r, second)
	stopSecond()
	third, _ := s.registry() // starts with everything
	s.settled(s.r, third)
	for _, id := range ids {
		if n := s.wants(id, "db"); n != 1 {
			t.Errorf("server %s: db was wanted %d times; want once", id, n)
		}
	}
}

// A registry that was killed before it derived anything leaves it to the next start.
func TestWhatWasDueBeforeARestartIsDerivedAfterIt(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	d := s.setDefault("db", reachNew)
	s.stop()
	id := ident.New()
	drafts := []ledger.Draft{
		fact(ledger.Server, id, &serverv1.Invited{Name: "one", Cell: "main", Environment: "prod"}),
		fact(ledger.Server, id, &serverv1.Enrolled{
			Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
		}),
	}
	s.appendAsync(drafts...)
	s.r, _ = s.registry()
	s.untilInstalled("db", id)
	if r := s.outcome(s.facts(ledger.Instance, ledger.Key(id, "db"))[0].Request); r.Actor != d.Actor {
		t.Errorf("the actor is %s; want %s", r.Actor, d.Actor)
	}
}

func TestAServerThatMovesGetsTheDefaultsAndLosesNothing(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.setDefault("db", reachNew)
	id := s.join("one", "test")
	on := &intentv1.Selector{Servers: []string{"one"}}
	move := &registryv1.MoveServersRequest{On: on, Environment: "prod"}
	p := must[*registryv1.PlanDefaultsResponse](s, "PlanDefaults",
		&registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Move{Move: move}})
	if len(p.Targets) != 1 || p.Servers != 1 || p.Plans[0].Changed != 1 {
		t.Fatalf("the plan is %v; want db on one", p)
	}
	move.PlanSha256 = p.PlanSha256
	if r := must[*registryv1.MoveServersResponse](s, "MoveServers", move); r.Moved != 1 {
		t.Errorf("moved %d; want 1", r.Moved)
	}
	s.untilInstalled("db", id)
	if have := s.code("MoveServers", move); have != "PLAN_STALE" {
		t.Errorf("the same plan again: %s", have)
	}
	must[*registryv1.MoveServersResponse](s, "MoveServers", &registryv1.MoveServersRequest{On: on})
	s.settled(s.r)
	if !s.wanted(id, "db") {
		t.Error("db went when the server left the environment")
	}
	if list := must[*registryv1.ListServersResponse](s, "ListServers",
		&registryv1.ListServersRequest{Environment: "none"}); len(list.Servers) != 1 || list.Servers[0].Id != id {
		t.Errorf("servers without an environment: %v; want one", list.Servers)
	}
	where := &intentv1.Selector{Where: []*intentv1.Condition{
		{Field: "env", Operator: intentv1.Operator_OPERATOR_IN, Values: []string{"none", "test"}},
	}}
	if list := must[*registryv1.ListServersResponse](s, "ListServers",
		&registryv1.ListServersRequest{On: where}); len(list.Servers) != 1 {
		t.Errorf("servers with env in (none,test): %v; want one", list.Servers)
	}
}

func TestADefaultForAllTouchesWhatItsPlanShowedOrNothing(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	one, two := s.join("one", "prod"), s.join("two", "prod")
	ask := setDefault("db", reachAll)
	plan := func() *registryv1.PlanDefaultsResponse {
		return must[*registryv1.PlanDefaultsResponse](s, "PlanDefaults",
			&registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Set{Set: ask}})
	}
	p := plan()
	if p.Plans[0].Changed != 2 || p.Servers != 2 {
		t.Fatalf("the plan is %v; want db on both", p)
	}
	ask.PlanSha256 = p.PlanSha256
	three := s.join("three", "prod")
	if have := s.code("SetDefault", ask); have != "PLAN_STALE" {
		t.Errorf("with a third server: %s; want PLAN_STALE", have)
	}
	s.settled(s.r)
	if s.wanted(one, "db") {
		t.Error("a refused default installed something")
	}
	ask.PlanSha256 = plan().PlanSha256
	must[*registryv1.SetDefaultResponse](s, "SetDefault", ask)
	s.untilInstalled("db", one, two, three)
	if n := len(s.facts(ledger.Intent, s.facts(ledger.Instance, ledger.Key(one, "db"))[0].Request)); n != 1 {
		t.Errorf("%d facts of the intent; want one intent", n)
	}
	before := s.last()
	ask.PlanSha256 = nil
	must[*registryv1.SetDefaultResponse](s, "SetDefault", ask)
	if after := s.last(); after != before {
		t.Errorf("the same default again wrote %d facts", after-before)
	}
}

// A removal stands against the default, at once and after a restart, until all servers get it again.
func TestARemovalWinsUntilTheDefaultIsSetForAll(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.setDefault("db", reachNew)
	id := s.join("one", "prod")
	s.untilInstalled("db", id)
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: "db", On: on(id)}}}
	s.accepted("remove", undo)
	i := s.instance("db")
	s.append(removal(i)...)
	bustest.Eventually(t, "db is gone", func() bool { return s.rowState(id, "db") == removedState })
	s.r.defaults.AddEverything()
	s.settled(s.r)
	second, _ := s.registry()
	s.settled(second)
	if s.wants(id, "db") != 1 {
		t.Error("the default installed db again")
	}
	s.setDefault("db", reachAll)
	s.untilInstalled("db", id)
}

func TestADefaultThatFilesDeclareKeepsItsOwnersAndItsReach(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	first := s.setDefault("db", reachAll)
	q := setDefault("db", reachAll)
	q.Owner, q.KeepReach, q.IfRevision = &ownerv1.FieldOwner{Name: "site", Fields: map[string]uint64{".": 1}}, true,
		first.Revision
	claimed := must[*registryv1.SetDefaultResponse](s, "SetDefault", q).Default
	if claimed.AllSince != first.AllSince || len(claimed.Owners) != 1 {
		t.Errorf("%v; want one owner and the reach of fact %d", claimed, first.AllSince)
	}
	if again := must[*registryv1.SetDefaultResponse](s, "SetDefault", q).Default; again.Revision != claimed.Revision {
		t.Error("the same request wrote a fact")
	}
	q.Metadata = map[string]string{"level": "info"}
	if got := s.code("SetDefault", q); got != "REVISION_CHANGED" {
		t.Errorf("a change of an older revision: %s", got)
	}
	unset := &registryv1.UnsetDefaultRequest{Environment: "prod", Agent: "db", IfRevision: first.Revision}
	if got := s.code("UnsetDefault", unset); got != "REVISION_CHANGED" {
		t.Errorf("the end of an older revision: %s", got)
	}
	if by := s.setDefault("db", reachNew); len(by.Owners) != 1 {
		t.Errorf("a request without an owner leaves %v", by.Owners)
	}
}

func TestWhatCannotBeInstalledWaitsWithItsReasonAndComesAsSoonAsItCan(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.channel("release", true)
	s.agent("db")
	s.agent("web", "db")
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{
		Environment: &environmentv1.Environment{Name: "prod"},
	})
	s.setDefault("web", reachNew)
	id := s.join("one", "prod")
	s.image("web", "1.0.0", "release", func(m *imagev1.Manifest) { m.Platform.Arch = "arm64" })
	bustest.Eventually(t, "web waits", func() bool {
		rows := s.rows(id)
		return len(rows) == 1 && len(rows[0].Reasons) == 1 && rows[0].Reasons[0].Code == "WRONG_PLATFORM"
	})
	s.image("web", "1.1.0", "release")
	bustest.Eventually(t, "web waits for db", func() bool {
		rows := s.rows(id)
		return len(rows[0].Reasons) == 1 && rows[0].Reasons[0].Code == "MISSING_DEPENDENCY"
	})
	s.image("db", "1.0.0", "release")
	s.accepted("install", install("db", on(id)))
	s.untilInstalled("web", id)
	if have := s.instance("web").Wanted.Version; have != "1.1.0" {
		t.Errorf("web is wanted at %s; want 1.1.0", have)
	}
	s.image("web", "2.0.0", "release")
	s.settled(s.r)
	if s.wants(id, "web") != 1 {
		t.Error("a channel that moved changed what the default installed")
	}
}

func TestAWrongDefaultIsRefusedWithACode(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.setDefault("db", reachNew)
	version := func(v string) *intentv1.ImageChoice {
		return &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: v}}
	}
	channel := &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: "dev"}}
	all := &intentv1.Selector{All: true}
	reachless := &registryv1.SetDefaultRequest{Environment: "prod", Agent: "db"}
	type set = *registryv1.SetDefaultRequest
	with := func(change func(set)) set {
		q := setDefault("db", reachNew)
		change(q)
		return q
	}
	for _, c := range []struct {
		method, code string
		ask          proto.Message
	}{
		{"SetDefault", "BAD_REACH", reachless},
		{"SetDefault", "UNKNOWN_ENVIRONMENT", with(func(q set) { q.Environment = "prodd" })},
		{"SetDefault", "UNKNOWN_AGENT", setDefault("dbb", reachNew)},
		{"SetDefault", "NO_MATCH", with(func(q set) { q.Image = version("9.9.9") })},
		{"SetDefault", "UNKNOWN_CHANNEL", with(func(q set) { q.Image = channel })},
		{"SetDefault", "BAD_METADATA", with(func(q set) { q.Metadata = map[string]string{"a-b": "c"} })},
		{"SetDefault", "PLAN_STALE", with(func(q set) { q.PlanSha256 = []byte("another") })},
		{"UnsetDefault", "UNKNOWN_DEFAULT", &registryv1.UnsetDefaultRequest{Environment: "prod", Agent: "web"}},
		{"UnsetDefault", "UNKNOWN_ENVIRONMENT", &registryv1.UnsetDefaultRequest{Environment: "prodd", Agent: "web"}},
		{"ListDefaults", "MALFORMED", &registryv1.ListDefaultsRequest{}},
		{"ListDefaults", "UNKNOWN_ENVIRONMENT", &registryv1.ListDefaultsRequest{Environment: "prodd"}},
		{"ListDefaults", "UNKNOWN_SERVER", &registryv1.ListDefaultsRequest{Server: "one"}},
		{"PlanDefaults", "MALFORMED", &registryv1.PlanDefaultsRequest{}},
		{"PlanDefaults", "BAD_REACH", &registryv1.PlanDefaultsRequest{
			Ask: &registryv1.PlanDefaultsRequest_Set{Set: reachless},
		}},
		{"MoveServers", "UNKNOWN_ENVIRONMENT", &registryv1.MoveServersRequest{On: all, Environment: "prodd"}},
		{"MoveServers", "EMPTY_SELECTOR", &registryv1.MoveServersRequest{Environment: "prod"}},
		{"MoveServers", "NO_SERVERS", &registryv1.MoveServersRequest{On: all, Environment: "prod"}},
		{"DeleteAgent", "IN_USE", &registryv1.DeleteAgentRequest{Name: "db"}},
		{"CreateEnvironment", "BAD_NAME", &registryv1.CreateEnvironmentRequest{
			Environment: &environmentv1.Environment{Name: "none"},
		}},
	} {
		if have := s.code(c.method, c.ask); have != c.code {
			t.Errorf("%s: code %s; want %s", c.method, have, c.code)
		}
	}
	forged := install("db", on(s.server("one")))
	forged.Source = &intentv1.Source{Environment: "prod", Revision: 1}
	if r := s.outcome(s.publish("install", forged)); r.Refusal.GetCode() != "MALFORMED" {
		t.Errorf("an intent with a forged source: %v", r.Refusal)
	}
}

func TestAnEnvironmentThatChangesKeepsItsDefaults(t *testing.T) {
	t.Parallel()
	s := defaulted(t)
	s.setDefault("db", reachNew)
	e := must[*registryv1.ChangeEnvironmentResponse](s, "ChangeEnvironment", &registryv1.ChangeEnvironmentRequest{
		Environment: &environmentv1.Environment{
			Name: "prod", Description: "live", Defaults: map[string]*environmentv1.Default{"web": {}},
		},
	}).Environment
	if len(e.Defaults) != 1 || e.Defaults["db"].GetActor() != "alice" || e.Description != "live" {
		t.Errorf("have %v; want the description and the default for db alone", e)
	}
	must[*registryv1.UnsetDefaultResponse](s, "UnsetDefault",
		&registryv1.UnsetDefaultRequest{Environment: "prod", Agent: "db"})
	must[*registryv1.ChangeAgentResponse](s, "ChangeAgent", &registryv1.ChangeAgentRequest{
		Agent: &agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_DAEMON},
	})
	must[*registryv1.DeleteAgentResponse](s, "DeleteAgent", &registryv1.DeleteAgentRequest{Name: "db"})
}
