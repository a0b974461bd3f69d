package rollouts

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/intents"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

// fleet is rollouts over a ledger in memory, and servers of the environment prod that do what is wanted.
type fleet struct {
	*recordstest.World
	work    *Work
	api     *API
	servers []string // their ids
}

func newFleet(t *testing.T, servers int) *fleet {
	t.Helper()
	f := &fleet{World: recordstest.New(t)}
	lookup := intents.NewLookup(f.Records, nil)
	f.work, f.api = NewWork(f.Records, lookup, nil, zerolog.Nop()), NewAPI(f.Records, lookup, nil, zerolog.Nop())
	f.Hear, f.Fails = append(f.Hear, f.work.NoteFacts), code.NotReady
	f.Environment("prod")
	for n := range servers {
		f.servers = append(f.servers, f.Server(fmt.Sprint("s", n), "prod"))
	}
	f.Agent("web")
	f.Image("web", "1.0.0")
	return f
}

// running is a fleet on which agents run in version 1.0.0, and may have version 1.1.0.
func running(t *testing.T, servers int, agents ...string) *fleet {
	t.Helper()
	f := newFleet(t, servers)
	for _, agent := range agents {
		if agent != "web" {
			f.Agent(agent)
			f.Image(agent, "1.0.0")
		}
		f.Accept(topology.VerbInstall, recordstest.Install(agent, recordstest.Everywhere()))
		f.Work(nil)
		f.Image(agent, "1.1.0")
	}
	return f
}

// up is a rollout of an upgrade of web everywhere.
func up(s *rolloutv1.Strategy, stages ...*rolloutv1.Stage) *intentv1.Intent {
	if s == nil {
		s = &rolloutv1.Strategy{}
	}
	s.Stages = append(s.Stages, stages...)
	return &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
		On: recordstest.Everywhere(), Strategy: s,
		Steps: []*intentv1.Step{{Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "web"}}}},
	}}}
}

// hurried is an emergency, which changes all servers of a wave at once.
func hurried() *rolloutv1.Strategy { return &rolloutv1.Strategy{Emergency: true} }

// taking is a stage of n servers.
func taking(n uint32) *rolloutv1.Stage {
	return &rolloutv1.Stage{Size: &rolloutv1.Stage_Servers{Servers: n}}
}

func undoOf(id string, s *rolloutv1.Strategy) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id, Strategy: s}}}
}

// decide decides a rollout of alice, and records what follows.
func (f *fleet) decide(in *intentv1.Intent) (id string, d rolling.Decision) {
	f.T.Helper()
	id = ident.New()
	ask := intent.Ask{ID: id, Actor: "alice", Verb: topology.VerbRollout, At: f.At, Intent: in}
	ask.Undone, _ = f.View.Intent(in.GetRollout().GetUndoOf())
	d = rolling.Decide(f.View, ask)
	var drafts []ledger.Draft
	for _, part := range d.Parts {
		drafts = append(drafts, ledger.Free(part))
	}
	if _, err := f.Append(context.Background(), append(drafts, d.Last...)...); err != nil {
		f.T.Fatal(err)
	}
	return id, d
}

// start begins a rollout that must be accepted.
func (f *fleet) start(in *intentv1.Intent) string {
	f.T.Helper()
	id, d := f.decide(in)
	if d.Refusal != nil {
		f.T.Fatalf("refused: %s", fault.Line(d.Refusal))
	}
	return id
}

// plan plans a rollout as alice.
func (f *fleet) plan(in *intentv1.Intent) *registryv1.PlanRolloutResponse {
	f.T.Helper()
	return recordstest.Call(f.World, f.api.plan, &registryv1.PlanRolloutRequest{Intent: in})
}

// until does the work of registry, dispatcher and servers until so is true. The version 1.1.0 does not start on servers
// that are bad.
func (f *fleet) until(what string, bad func(server string) bool, so func() bool) {
	f.T.Helper()
	fails := func(i *instancev1.Instance) bool {
		return bad != nil && i.Wanted.Version == "1.1.0" && bad(i.ServerId)
	}
	for range 200 {
		if so() {
			return
		}
		f.look()
		if !so() {
			f.Work(fails)
		}
	}
	f.T.Fatalf("never: %s", what)
}

// look has the registry decide what is next, without the work of servers.
func (f *fleet) look() {
	f.At = f.At.Add(time.Second)
	f.work.all(context.Background())
}

func everywhere(string) bool { return true }

// is returns a condition of a rollout's state.
func (f *fleet) is(id string, want rolloutv1.State) func() bool {
	return func() bool { return f.rollout(id).GetState() == want }
}

// succeeds works until a rollout succeeds.
func (f *fleet) succeeds(id string) {
	f.T.Helper()
	f.until("it succeeds", nil, f.is(id, rolloutv1.State_STATE_SUCCEEDED))
}

func (f *fleet) rollout(id string) *rolloutv1.Rollout {
	r, _ := f.View.Rollout(id)
	return r
}

// passed returns a condition: a wave of a rollout passed.
func (f *fleet) passed(id string, wave int) func() bool {
	return func() bool { return f.rollout(id).Waves[wave-1].PassedAt != nil }
}

// control steers a rollout as alice.
func (f *fleet) control(id string, c registryv1.RolloutControl) {
	f.T.Helper()
	q := &registryv1.ControlRolloutRequest{RolloutId: id, Control: c, Reason: "because"}
	recordstest.Call(f.World, f.api.Control, q)
}

const (
	pause   = registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE
	resume  = registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME
	abort   = registryv1.RolloutControl_ROLLOUT_CONTROL_ABORT
	approve = registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE
)

// versions counts the servers by the version that is wanted of an agent.
func (f *fleet) versions(agent string) map[string]int {
	out := map[string]int{}
	for _, server := range f.servers {
		out[f.Instance(server, agent).GetWanted().GetVersion()]++
	}
	return out
}

// wants checks on how many servers a version of web is wanted.
func (f *fleet) wants(version string, servers int) {
	f.T.Helper()
	if have := f.versions("web"); have[version] != servers {
		f.T.Errorf("wanted are the versions %v; want %s on %d", have, version, servers)
	}
}

// wantedAt returns the last position in the ledger at which a version was wanted of an agent; 0 when it never was.
func (f *fleet) wantedAt(server, agent, version string) (at uint64) {
	for _, x := range f.Facts {
		b, ok := x.Body.(*instancev1.Wanted)
		if ok && x.Key == ledger.Key(server, agent) && b.Image.GetVersion() == version {
			at = x.Sequence
		}
	}
	return at
}

// target returns the state of a server in a rollout.
func (f *fleet) target(id, server string) *rolloutv1.Target {
	t, _ := f.View.Target(id, server)
	return t
}

var alice = bus.Caller{Actor: "alice"}

func listOf(id string) *registryv1.ListRolloutTargetsRequest {
	return &registryv1.ListRolloutTargetsRequest{RolloutId: id}
}
