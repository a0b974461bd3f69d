package defaults_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/services/registry/internal/defaults"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

const (
	onNew = environmentv1.Reach_REACH_NEW
	onAll = environmentv1.Reach_REACH_ALL
)

// world is a view that a test writes into.
type world struct {
	*view.View
	last uint64
}

func (w *world) apply(noun ledger.Noun, key string, body proto.Message) {
	w.last++
	w.Apply(ledger.Fact{
		Noun: noun, Key: key, Body: body, At: time.Unix(int64(w.last), 0), Sequence: w.last, Actor: "alice",
	})
}

// site has the environments prod and test, and the agents web and db with an image each for linux/amd64.
func site() *world {
	w := &world{View: view.New()}
	w.apply(ledger.Channel, "release", &channelv1.Created{Default: true})
	w.agent("db")
	w.agent("web", "db")
	w.image("db", "1.0.0", "amd64")
	w.image("web", "1.0.0", "amd64")
	for _, name := range []string{"prod", "test"} {
		w.apply(ledger.Environment, name, &environmentv1.Created{Environment: &environmentv1.Environment{}})
	}
	return w
}

func (w *world) agent(name string, needs ...string) {
	w.apply(ledger.Agent, name, &agentv1.Created{
		Agent: &agentv1.Agent{Kind: agentv1.Kind_KIND_DAEMON, Dependencies: needs},
	})
}

func (w *world) image(agent, version, arch string) {
	id := agent + version + arch
	m := &imagev1.Manifest{
		Id: id, Agent: agent, Version: version, Kind: agentv1.Kind_KIND_DAEMON,
		Platform: &serverv1.Platform{Os: "linux", Arch: arch},
	}
	w.apply(ledger.Image, id, &imagev1.Created{Manifest: m})
	w.apply(ledger.Image, id, &imagev1.Filled{})
	w.apply(ledger.Image, id, &imagev1.Activated{})
	w.apply(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: id})
}

func (w *world) join(id, environment, arch string) {
	w.apply(ledger.Server, id, &serverv1.Invited{Name: id, Cell: "main", Environment: environment})
	w.apply(ledger.Server, id, &serverv1.Enrolled{
		Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: arch}},
	})
}

func (w *world) set(agent string, reach environmentv1.Reach) {
	w.apply(ledger.Environment, "prod", &environmentv1.DefaultSet{Agent: agent, Reach: reach})
}

func (w *world) has(server, agent, version string) {
	key := ledger.Key(server, agent)
	w.apply(ledger.Instance, key, &instancev1.Wanted{
		InstanceId: key, Generation: 1, Image: &imagev1.Ref{Id: agent + version + "amd64", Version: version},
	})
}

func (w *world) removed(server, agent string) {
	i, _ := w.Instance(server, agent)
	w.apply(ledger.Instance, ledger.Key(server, agent), &instancev1.Unwanted{InstanceId: i.Id, Generation: 2})
	w.apply(ledger.Instance, ledger.Key(server, agent), &instancev1.Gone{InstanceId: i.Id})
	if _, there := w.Instance(server, agent); there {
		panic("the instance is still there")
	}
}

func (w *world) derive(agent string, servers ...string) defaults.Derived {
	return defaults.Derive(w, "prod", agent, servers, nil, time.Unix(99, 0))
}

// settle derives everything as the worker does, and returns what was installed.
func (w *world) settle(servers ...string) (installed []string) {
	e, _ := w.Environment("prod")
	for _, agent := range defaults.Agents(w, e) {
		for _, d := range w.derive(agent, servers...).Drafts {
			w.apply(d.Noun, d.Key, d.Body)
			if d.Noun == ledger.Instance {
				installed = append(installed, d.Key)
			}
		}
	}
	return installed
}

// installs are what happens to the server s, and what a default installs there then.
var installs = map[string]struct {
	happened func(w *world)
	want     []string // what is installed on the server s
}{
	"it joins":         {func(w *world) { w.set("db", onNew); w.join("s", "prod", "amd64") }, []string{"s.db"}},
	"it joined before": {func(w *world) { w.join("s", "prod", "amd64"); w.set("db", onNew) }, nil},
	"it joined before, all": {func(w *world) {
		w.join("s", "prod", "amd64")
		w.set("db", onAll)
	}, []string{"s.db"}},
	"another environment": {func(w *world) { w.set("db", onAll); w.join("s", "test", "amd64") }, nil},
	"no environment":      {func(w *world) { w.set("db", onAll); w.join("s", "", "amd64") }, nil},
	"no image for it":     {func(w *world) { w.set("db", onNew); w.join("s", "prod", "arm64") }, nil},
	"it is only invited": {func(w *world) {
		w.set("db", onNew)
		w.apply(ledger.Server, "s", &serverv1.Invited{Name: "s", Environment: "prod"})
	}, nil},
	"it moves there": {func(w *world) {
		w.join("s", "test", "amd64")
		w.set("db", onNew)
		w.apply(ledger.Server, "s", &serverv1.Changed{Environment: "prod"})
	}, []string{"s.db"}},
	"its labels change": {func(w *world) {
		w.join("s", "prod", "amd64")
		w.set("db", onNew)
		w.apply(ledger.Server, "s", &serverv1.Changed{Environment: "prod", Labels: map[string]string{"a": "b"}})
	}, nil},
	"it enrols again": {func(w *world) {
		w.join("s", "prod", "amd64")
		w.set("db", onNew)
		w.apply(ledger.Server, "s", &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{}})
	}, nil},
	"another version is there": {func(w *world) {
		w.set("db", onAll)
		w.join("s", "prod", "amd64")
		w.has("s", "db", "0.9.0")
	}, nil},
	"it is being removed": {func(w *world) {
		w.set("db", onAll)
		w.join("s", "prod", "amd64")
		w.has("s", "db", "1.0.0")
		w.apply(ledger.Instance, "s.db", &instancev1.Unwanted{InstanceId: "s.db", Generation: 2})
	}, nil},
	"it was removed since": {func(w *world) {
		w.set("db", onNew)
		w.join("s", "prod", "amd64")
		w.settle("s")
		w.removed("s", "db")
	}, nil},
	"removed, then set again for new": {func(w *world) {
		w.set("db", onNew)
		w.join("s", "prod", "amd64")
		w.has("s", "db", "1.0.0")
		w.removed("s", "db")
		w.set("db", onNew)
	}, nil},
	"removed, then set again for all": {func(w *world) {
		w.set("db", onNew)
		w.join("s", "prod", "amd64")
		w.has("s", "db", "1.0.0")
		w.removed("s", "db")
		w.set("db", onAll)
	}, []string{"s.db"}},
	"removed, then it leaves and returns": {func(w *world) {
		w.set("db", onNew)
		w.join("s", "prod", "amd64")
		w.settle("s")
		w.removed("s", "db")
		w.apply(ledger.Server, "s", &serverv1.Changed{Environment: "test"})
		w.apply(ledger.Server, "s", &serverv1.Changed{Environment: "prod"})
	}, []string{"s.db"}},
	"the default was unset": {func(w *world) {
		w.set("db", onAll)
		w.join("s", "prod", "amd64")
		w.apply(ledger.Environment, "prod", &environmentv1.DefaultUnset{Agent: "db"})
	}, nil},
	"it is dying": {func(w *world) {
		w.set("db", onAll)
		w.join("s", "prod", "amd64")
		w.apply(ledger.Server, "s", &serverv1.Dying{})
	}, nil},
	"no instance explains it there": {func(w *world) {
		w.set("db", onAll)
		w.join("s", "prod", "amd64")
		w.apply(ledger.Server, "s", &serverv1.AgentsFound{Agents: []*serverv1.FoundAgent{{Agent: "db"}}})
	}, nil},
	"another root has it there": {func(w *world) {
		w.set("db", onAll)
		w.join("s", "prod", "amd64")
		w.apply(ledger.Server, "s", &serverv1.AgentsFound{
			Agents: []*serverv1.FoundAgent{{Agent: "db", OtherRoot: "/elsewhere"}},
		})
	}, []string{"s.db"}},
	"a rollout brings it": {func(w *world) { w.set("db", onAll); w.join("s", "prod", "amd64"); w.bringing() }, nil},
	"the rollout was aborted": {func(w *world) {
		w.set("db", onAll)
		w.join("s", "prod", "amd64")
		w.bringing()
		w.apply(ledger.Rollout, "r", &rolloutv1.Aborted{})
	}, []string{"s.db"}},
	"what it needs is missing": {func(w *world) { w.set("web", onNew); w.join("s", "prod", "amd64") }, nil},
	"what it needs comes with it": {func(w *world) {
		w.set("web", onNew)
		w.set("db", onNew)
		w.join("s", "prod", "amd64")
	}, []string{"s.db", "s.web"}},
}

// bringing begins a rollout that brings db to the server s.
func (w *world) bringing() {
	w.apply(ledger.Rollout, "r", &rolloutv1.Planned{
		Strategy: &rolloutv1.Strategy{}, Waves: []uint32{1}, Part: 1, Parts: 1, Agents: []string{"db"},
		Targets: []*rolloutv1.Target{{ServerId: "s", Wave: 1, Changes: []*rolloutv1.Change{
			{Agent: "db", To: &imagev1.Ref{Id: "db1.0.0amd64"}},
		}}},
	})
}

func TestADefaultInstallsOnlyWhatIsMissingWhereItIsDue(t *testing.T) {
	for name, c := range installs {
		t.Run(name, func(t *testing.T) {
			w := site()
			c.happened(w)
			if diff := cmp.Diff(c.want, w.settle("s")); diff != "" {
				t.Error(diff)
			}
			if again := w.settle("s"); again != nil {
				t.Errorf("derived again: %v", again)
			}
		})
	}
}

func TestADerivedIntentNamesTheDefaultAndItsActor(t *testing.T) {
	w := site()
	w.set("db", onNew)
	revision := w.last
	w.join("a", "prod", "amd64")
	w.join("b", "prod", "amd64")
	w.join("c", "prod", "arm64")
	d := w.derive("db", "a", "b", "c")
	last := d.Drafts[len(d.Drafts)-1]
	answer := last.Body.(*intentv1.Accepted)
	if s := answer.Intent.GetSource(); s.GetEnvironment() != "prod" || s.Revision != revision || last.Actor != "alice" {
		t.Errorf("source %v, actor %s; want prod, %d, alice", s, last.Actor, revision)
	}
	if answer.Changed != 2 || !slices.Equal(d.Waiting, []string{"c"}) || len(d.Drafts) != 3 {
		t.Errorf("changed %d, waiting %v, %d drafts; want one intent for a and b, and c waiting",
			answer.Changed, d.Waiting, len(d.Drafts))
	}
	want := ledger.Guard{Subject: ledger.KeySubject(ledger.Environment, "prod"), Sequence: revision}
	if last.Guard != want {
		t.Errorf("the answer is guarded by %v; want the environment", last.Guard)
	}
	if again := w.derive("db", "a", "b", "c"); again.Intent != d.Intent {
		t.Errorf("decided again as %s; want %s", again.Intent, d.Intent)
	}
}

func TestTheValuesOfADefaultComeBetweenTheEnvironmentAndTheInstance(t *testing.T) {
	w := site()
	w.apply(ledger.Environment, "prod", &environmentv1.Changed{
		Environment: &environmentv1.Environment{Metadata: map[string]string{"a": "env", "b": "env"}},
	})
	w.apply(ledger.Environment, "prod", &environmentv1.DefaultSet{
		Agent: "db", Reach: onNew, Metadata: map[string]string{"b": "default"},
	})
	w.join("s", "prod", "amd64")
	w.settle("s")
	i, _ := w.Instance("s", "db")
	want := map[string]string{"a": "env", "b": "default"}
	if diff := cmp.Diff(want, i.GetConfiguration().GetMetadata()); diff != "" {
		t.Error(diff)
	}
}

func request(agent string, reach environmentv1.Reach) *registryv1.SetDefaultRequest {
	return &registryv1.SetDefaultRequest{Environment: "prod", Agent: agent, Reach: reach}
}

func TestAPlanOfADefaultIsWhatIsDerivedOnceItIsSet(t *testing.T) {
	for _, reach := range []environmentv1.Reach{onNew, onAll} {
		w := site()
		w.join("waits", "prod", "arm64")
		w.set("db", onNew)
		for n := range 3 {
			w.join(fmt.Sprint("old", n), "prod", "amd64")
		}
		w.has("old0", "db", "0.9.0")
		w.has("old1", "db", "1.0.0")
		w.removed("old1", "db")

		p := defaults.PlanSet(w, request("db", reach), time.Now())
		before := p.Sum()
		w.set("db", reach)
		installed := w.settle("old0", "old1", "old2", "waits")

		if p.Servers != 4 || int(p.Plans[0].Changed) != len(installed) || p.Present != 1 {
			t.Errorf("%s: planned %d of %d servers, %d present; installed %v", reach, p.Plans[0].Changed, p.Servers,
				p.Present, installed)
		}
		want := map[environmentv1.Reach][]string{onNew: {"old2.db"}, onAll: {"old1.db", "old2.db"}}[reach]
		if diff := cmp.Diff(want, installed); diff != "" {
			t.Errorf("%s: %s", reach, diff)
		}
		if slices.Equal(before, defaults.PlanSet(w, request("db", reach), time.Now()).Sum()) {
			t.Errorf("%s: another fleet has the same digest", reach)
		}
	}
}

func TestAPlanOfAMoveInstallsWhatEachAgentNeedsFirst(t *testing.T) {
	w := site()
	w.set("web", onNew)
	w.set("db", onNew)
	w.join("s", "test", "amd64")
	w.join("t", "prod", "amd64")
	s, _ := w.Server("s")
	there, _ := w.Server("t")
	p := defaults.PlanMove(w, []*serverv1.Server{s, there}, "prod", time.Now())
	if len(p.Plans) != 2 || p.Plans[0].Agent != "db" || p.Plans[1].Changed != 1 || p.Servers != 1 || p.Already != 1 {
		t.Errorf("have %+v; want db and then web on s, and t already there", p)
	}
	if s.Environment != "test" {
		t.Error("the plan moved the server")
	}
	none := defaults.PlanMove(w, []*serverv1.Server{there}, "", time.Now())
	if len(none.Plans) != 0 || none.Servers != 1 {
		t.Errorf("a move to no environment plans %+v", none)
	}
}

func TestARowCountsServersByWhatBecameOfTheDefault(t *testing.T) {
	w := site()
	w.join("old", "prod", "amd64")
	w.set("db", onNew)
	for _, id := range []string{"due", "has", "left"} {
		w.join(id, "prod", "amd64")
	}
	w.join("waits1", "prod", "arm64")
	w.join("waits2", "prod", "arm64")
	w.has("has", "db", "1.0.0")
	w.has("left", "db", "1.0.0")
	w.removed("left", "db")
	e, _ := w.Environment("prod")
	row := defaults.Rows(w, e)[0]
	for _, part := range [][]string{{"old", "due", "has", "left", "waits1"}, {"waits2", "unknown"}} {
		defaults.Count(w, row, part, time.Now())
	}
	want := map[uint32]uint32{1: 1, 2: 1, 3: 2, 4: 1, 5: 1}
	if diff := cmp.Diff(want, row.Servers); diff != "" {
		t.Error(diff)
	}
	if len(row.Reasons) != 1 || row.Reasons[0].Count != 2 || row.Reasons[0].Code != "WRONG_PLATFORM" {
		t.Errorf("reasons %v; want two of the wrong platform", row.Reasons)
	}
}
