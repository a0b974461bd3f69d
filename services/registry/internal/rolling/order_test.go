package rolling_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/version"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

var linux = &serverv1.Platform{Os: "linux", Arch: "amd64"}

// world is a view with one server that is online.
type world struct {
	*view.View
	last   uint64
	server string
}

func newWorld() *world {
	w := &world{View: view.New(), server: ident.From("server")}
	w.apply(ledger.Channel, "release", &channelv1.Created{Default: true})
	w.apply(ledger.Server, w.server, &serverv1.Invited{Name: "s", Cell: "main"})
	w.apply(ledger.Server, w.server, &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{Platform: linux}})
	w.apply(ledger.Server, w.server, &serverv1.Online{})
	return w
}

func (w *world) apply(noun ledger.Noun, key string, body proto.Message) {
	w.last++
	w.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(w.last), 0), Sequence: w.last})
}

func (w *world) agent(name string, tier uint32, needs ...string) {
	w.apply(ledger.Agent, name, &agentv1.Created{Agent: &agentv1.Agent{
		Name: name, Kind: agentv1.Kind_KIND_DAEMON, Tier: tier, Dependencies: needs,
	}})
}

// image makes an image: "web 2.0.0", what it upgrades from or "", and what it requires such as "db >=2".
func (w *world) image(name, upgrades string, requires ...string) {
	agent, v, _ := strings.Cut(name, " ")
	m := &imagev1.Manifest{Id: name, Agent: agent, Version: v, Kind: agentv1.Kind_KIND_DAEMON, Platform: linux}
	if upgrades != "" {
		m.UpgradesFrom = []string{upgrades}
	}
	for _, text := range requires {
		other, versions, _ := strings.Cut(text, " ")
		m.Requires = append(m.Requires, &imagev1.Requirement{Agent: other, Versions: versions})
	}
	w.apply(ledger.Image, name, &imagev1.Created{Manifest: m})
	w.apply(ledger.Image, name, &imagev1.Filled{})
	w.apply(ledger.Image, name, &imagev1.Activated{})
	w.apply(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: name})
}

// runs puts an image on the server.
func (w *world) runs(name string) {
	agent, _, _ := strings.Cut(name, " ")
	key, want := ledger.Key(w.server, agent), wants(name, 1)
	w.apply(ledger.Instance, key, want)
	w.apply(ledger.Instance, key, &instancev1.Observed{
		InstanceId: agent, Generation: 1, Image: want.Image, Health: instancev1.Health_HEALTH_GOOD,
	})
}

// wants makes an image the one that is wanted of its agent.
func wants(name string, generation uint64) *instancev1.Wanted {
	agent, v, _ := strings.Cut(name, " ")
	return &instancev1.Wanted{
		InstanceId: agent, Generation: generation, Image: &imagev1.Ref{Id: name, Version: v},
	}
}

// plan plans a rollout: "up web 2.0.0", "install db 1.0.0", "remove web".
func (w *world) plan(steps ...string) rolling.Planned { return rolling.Plan(w, ask("r", steps...)) }

// ask asks for a rollout with such steps on every server.
func ask(id string, steps ...string) intent.Ask {
	q := &intentv1.Rollout{On: &intentv1.Selector{All: true}}
	for _, text := range steps {
		word := strings.Fields(text)
		agent, choice := word[1], (*intentv1.ImageChoice)(nil)
		if len(word) == 3 {
			choice = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: word[2]}}
		}
		step := &intentv1.Step{}
		switch word[0] {
		case "up":
			step.Change = &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: agent, Image: choice}}
		case "install":
			step.Change = &intentv1.Step_Install{Install: &intentv1.Install{Agent: agent, Image: choice}}
		case "remove":
			step.Change = &intentv1.Step_Remove{Remove: &intentv1.Remove{Agent: agent}}
		}
		q.Steps = append(q.Steps, step)
	}
	return intent.Ask{
		ID: id, Actor: "ann", Verb: topology.VerbRollout, At: time.Unix(1000, 0),
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: q}},
	}
}

// words returns the changes of a plan's only server: "1 db 1.0.0>2.0.0".
func words(p rolling.Planned) (out []string) {
	for _, t := range p.Targets {
		for _, c := range t.Changes {
			out = append(out, fmt.Sprintf("%d %s %s>%s", c.Step, c.Agent, c.From.GetVersion(), c.To.GetVersion()))
		}
	}
	return out
}

// pair is two agents, one of which requires the other.
func pair(w *world) {
	w.agent("web", 0)
	w.agent("db", 0)
	w.image("db 1.0.0", "")
	w.image("db 2.0.0", "")
	w.image("web 4.0.0", "")
	w.image("web 5.0.0", "", "db >=2.0.0")
}

// both is a server with the pair.
func both(w *world) {
	pair(w)
	w.runs("db 1.0.0")
	w.runs("web 4.0.0")
}

// orders are the steps of plans, and the changes that follow.
var orders = []struct {
	name  string
	world func(*world)
	steps []string
	want  string // the changes, or the code of the refusal
}{
	{
		"what is required comes first", both, []string{"up web 5.0.0", "up db 2.0.0"},
		"1 db 1.0.0>2.0.0, 2 web 4.0.0>5.0.0",
	},
	{"what is required is missing", both, []string{"up web 5.0.0"}, code.RequirementUnmet},
	{"two that are not related begin together", func(w *world) {
		both(w)
		w.image("web 4.1.0", "")
	}, []string{"up web 4.1.0", "up db 2.0.0"}, "1 web 4.0.0>4.1.0, 1 db 1.0.0>2.0.0"},
	{"versions that contradict each other", func(w *world) {
		pair(w)
		w.image("db 1.1.0", "")
		w.runs("db 1.0.0")
		w.runs("web 4.0.0")
	}, []string{"up web 5.0.0", "up db 1.1.0"}, code.ImpossibleSet},
	{"no order keeps the pairs", func(w *world) {
		pair(w)
		w.image("web 4.5.0", "", "db <2.0.0")
		w.runs("db 1.0.0")
		w.runs("web 4.5.0")
	}, []string{"up web 5.0.0", "up db 2.0.0"}, code.ImpossibleSet},
	{"both come, the one that is needed first", func(w *world) {
		w.agent("app", 0, "lib")
		w.agent("lib", 3)
		w.image("app 1.0.0", "")
		w.image("lib 1.0.0", "")
	}, []string{"install app", "install lib"}, "1 lib >1.0.0, 2 app >1.0.0"},
	{"both go, the one that is needed last", func(w *world) {
		w.agent("app", 0, "lib")
		w.agent("lib", 3)
		w.image("app 1.0.0", "")
		w.image("lib 1.0.0", "")
		w.runs("app 1.0.0")
		w.runs("lib 1.0.0")
	}, []string{"remove lib", "remove app"}, "1 app 1.0.0>, 2 lib 1.0.0>"},
	{"lower tiers first", func(w *world) {
		w.agent("top", 2)
		w.agent("base", 1)
		for _, name := range []string{"top", "base"} {
			w.image(name+" 1.0.0", "")
			w.image(name+" 2.0.0", "")
			w.runs(name + " 1.0.0")
		}
	}, []string{"up top", "up base"}, "1 base 1.0.0>2.0.0, 2 top 1.0.0>2.0.0"},
	{"by way of other versions, between which the other agent changes", func(w *world) {
		w.agent("web", 0)
		w.agent("db", 0)
		w.image("web 1.0.0", "")
		w.image("web 1.5.0", "", "db <2.0.0 || >=2.0.0")
		w.image("web 2.0.0", ">=1.5.0", "db >=2.0.0")
		w.image("db 1.0.0", "")
		w.image("db 2.0.0", "", "web >=1.5.0")
		w.runs("web 1.0.0")
		w.runs("db 1.0.0")
	}, []string{"up db 2.0.0", "up web 2.0.0"}, "1 web 1.0.0>1.5.0, 2 db 1.0.0>2.0.0, 3 web 1.5.0>2.0.0"},
	{"no way", func(w *world) {
		w.agent("web", 0)
		w.image("web 1.0.0", "")
		w.image("web 2.0.0", ">=1.5.0")
		w.runs("web 1.0.0")
	}, []string{"up web 2.0.0"}, code.NoUpgradePath},
}

func TestAPlanSeesItsOwnEarlierSteps(t *testing.T) {
	for _, c := range orders {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			c.world(w)
			p := w.plan(c.steps...)
			have := strings.Join(words(p), ", ")
			if p.Refusal != nil {
				have = p.Refusal.Code
			}
			if have != c.want {
				t.Errorf("planned %q (%v), want %q", have, p.Refusal, c.want)
			}
		})
	}
}

// Whatever images require of each other: at each moment between the changes of a plan, also of those that begin
// together, no pair is broken that was not broken before.
func TestNoMomentOfAPlanBreaksADeclaredPair(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for _, name := range names {
			w.agent(name, rapid.Uint32Range(0, 2).Draw(t, "tier"))
		}
		var steps []string
		for _, name := range names {
			for _, v := range []string{"1.0.0", "2.0.0", "3.0.0"} {
				var requires []string
				if rapid.Bool().Draw(t, "requires") {
					other := rapid.SampledFrom(names).Draw(t, "other")
					if other != name {
						requires = append(requires, other+" "+rapid.SampledFrom([]string{
							">=2.0.0", "<3.0.0", "<2.0.0", ">=3.0.0", ">=1.0.0",
						}).Draw(t, "range"))
					}
				}
				w.image(name+" "+v, rapid.SampledFrom([]string{"", "", ">=2.0.0"}).Draw(t, "from"), requires...)
			}
			w.runs(name + " 1.0.0")
			if rapid.Bool().Draw(t, "changes") {
				steps = append(steps, "up "+name+" 3.0.0")
			}
		}
		if len(steps) == 0 {
			return
		}
		p := w.plan(steps...)
		if p.Refusal != nil {
			return
		}
		state := map[string]string{}
		for _, name := range names {
			state[name] = "1.0.0"
		}
		broken := w.broken(state)
		for _, changes := range bySteps(p.Targets[0]) {
			for subset := range 1 << len(changes) { // any of those that begin together may be done first
				now := map[string]string{}
				for k, v := range state {
					now[k] = v
				}
				for i, c := range changes {
					if subset&(1<<i) != 0 {
						now[c.Agent] = c.To.Version
					}
				}
				for _, pair := range w.broken(now) {
					if !slices.Contains(broken, pair) {
						t.Fatalf("%s is broken by %v in %v", pair, changes, p.Targets[0])
					}
				}
			}
			for _, c := range changes {
				if state[c.Agent] != c.From.Version {
					t.Fatalf("%s goes from %s, and is at %s", c.Agent, c.From.Version, state[c.Agent])
				}
				state[c.Agent] = c.To.Version
			}
		}
	})
}

func bySteps(t *rolloutv1.Target) (out [][]*rolloutv1.Change) {
	for _, c := range t.Changes {
		for len(out) < int(c.Step) {
			out = append(out, nil)
		}
		out[c.Step-1] = append(out[c.Step-1], c)
	}
	return out
}

// broken returns the pairs that do not fit.
func (w *world) broken(state map[string]string) (out []string) {
	for agent, v := range state {
		i, _ := w.Image(agent + " " + v)
		for _, q := range i.GetManifest().GetRequires() {
			if !version.In(state[q.Agent], []string{q.Versions}) {
				out = append(out, agent+" "+q.Agent)
			}
		}
	}
	return out
}
