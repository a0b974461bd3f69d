package intent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

type values = map[string]string

// layered is a fleet whose agent, application and environment have values. The first
// server is in the environment.
func layered(n int) *world {
	w := fleet(n)
	w.apply(ledger.Application, "app", &applicationv1.Created{
		Application: &applicationv1.Application{Metadata: values{"a": "app", "b": "app", "c": "app"}},
	})
	w.apply(ledger.Environment, "prod",
		&environmentv1.Created{Environment: &environmentv1.Environment{Metadata: values{"c": "env", "d": "env"}}})
	w.agentValues(values{"b": "agent"})
	w.apply(ledger.Server, ident.From("server", "0"), &serverv1.Changed{Environment: "prod"})
	return w
}

func (w *world) agentValues(m values) {
	w.apply(ledger.Agent, "web",
		&agentv1.Changed{Agent: &agentv1.Agent{Kind: agentv1.Kind_KIND_DAEMON, Application: "app", Metadata: m}})
}

// decide decides an intent as a new one, and folds what it changes.
func (w *world) decide(verb string, i *intentv1.Intent) intent.Decision {
	d := intent.Decide(w, intent.Ask{
		ID:     ident.From("ask", fmt.Sprint(w.last)),
		Actor:  "alice",
		Verb:   verb,
		At:     time.Unix(99, 0),
		Intent: i,
	})
	for _, draft := range d.Drafts {
		w.apply(draft.Noun, draft.Key, draft.Body)
	}
	return d
}

func configure(set values, unset ...string) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Configure{Configure: &intentv1.Configure{
		Agent: "web", On: &intentv1.Selector{All: true}, Set: set, Unset: unset,
	}}}
}

func upgradeAll() *intentv1.Intent {
	return &intentv1.Intent{
		Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "web", On: &intentv1.Selector{All: true}}},
	}
}

func (w *world) on(n int) *instancev1.Instance {
	i, _ := w.Instance(ident.From("server", fmt.Sprint(n)), "web")
	return i
}

func counted(d intent.Decision) [3]uint32 {
	a, _ := d.Drafts[len(d.Drafts)-1].Body.(*intentv1.Accepted)
	return [3]uint32{a.GetChanged(), a.GetAlready(), a.GetPassedOver()}
}

func TestAnInstallMergesMetadataInOrderOfPrecedence(t *testing.T) {
	w := layered(2)
	w.decide("install", installAll().Intent)
	for n, want := range []values{
		{"a": "app", "b": "agent", "c": "env", "d": "env"}, {"a": "app", "b": "agent", "c": "app"},
	} {
		c := w.on(n).GetConfiguration()
		if diff := cmp.Diff(&instancev1.Configuration{Metadata: want, Digest: metadata.Digest(want)}, c,
			protocmp.Transform()); diff != "" {
			t.Errorf("server %d: %s", n, diff)
		}
	}
}

// A change of a layer waits for an intent that names the instance; the values that an intent sets
// stay the instance's own, whatever the layers become.
func TestMetadataChangesOnlyWithAnIntent(t *testing.T) {
	w := layered(2)
	w.decide("install", installAll().Intent)
	w.agentValues(values{"b": "changed"})
	if got := w.on(0).Configuration.Metadata["b"]; got != "agent" {
		t.Fatalf("b became %q without an intent", got)
	}
	for _, c := range []struct {
		name, verb string
		intent     *intentv1.Intent
		counts     [3]uint32
		key, value string
		generation uint64
	}{
		{"an install changes none that is there", "install", installAll().Intent, [3]uint32{0, 2, 0}, "b", "agent", 1},
		{"a configure merges again", "configure", configure(nil), [3]uint32{2, 0, 0}, "b", "changed", 2},
		{"once", "configure", configure(nil), [3]uint32{0, 2, 0}, "b", "changed", 2},
		{"own values win", "configure", configure(values{"c": "own"}), [3]uint32{2, 0, 0}, "c", "own", 3},
		{"the same again", "configure", configure(values{"c": "own"}), [3]uint32{0, 2, 0}, "c", "own", 3},
		{
			"own ones count where they change nothing", "configure", configure(values{"b": "changed"}),
			[3]uint32{2, 0, 0}, "b", "changed", 4,
		},
		{"an upgrade to the same image keeps them", "upgrade", upgradeAll(), [3]uint32{0, 2, 0}, "c", "own", 4},
		{"they are taken away", "configure", configure(nil, "c"), [3]uint32{2, 0, 0}, "c", "env", 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := w.decide(c.verb, c.intent)
			i := w.on(0)
			if counted(d) != c.counts || i.Configuration.Metadata[c.key] != c.value || i.Generation != c.generation {
				t.Errorf("refusal %v, counts %v, generation %d, %v; want %v, %d and %s=%s", d.Refusal, counted(d),
					i.Generation, i.Configuration, c.counts, c.generation, c.key, c.value)
			}
			if i.Wanted.GetVersion() != "1.0.0" {
				t.Errorf("it is wanted at %v", i.Wanted)
			}
		})
	}
	w.agentValues(values{"b": "later"})
	w.decide("upgrade", upgradeAll())
	if got := w.on(1).Configuration.Metadata["b"]; got != "changed" { // its own since
		t.Errorf("b is %q, want its own value", got)
	}
}

func TestAnUpgradeBringsChangedMetadata(t *testing.T) {
	w := layered(1)
	w.decide("install", installAll().Intent)
	w.agentValues(values{"b": "changed"})
	if got := counted(w.decide("upgrade", upgradeAll())); got != [3]uint32{1, 0, 0} ||
		w.on(0).Configuration.Metadata["b"] != "changed" {
		t.Errorf("counts %v, %v", got, w.on(0).Configuration)
	}
}

// task ends the task of the present generation of an instance. When it succeeded, the server
// lists what came.
func (w *world) task(i *instancev1.Instance, end proto.Message) {
	id := fmt.Sprintf("task-%d", w.last)
	w.apply(ledger.Task, id, &taskv1.Queued{
		ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.Id, Generation: i.Generation, From: i.Observed,
		To: i.Wanted,
	})
	if _, cancelled := end.(*taskv1.Cancelled); !cancelled { // only what is queued is
		w.apply(ledger.Task, id, &taskv1.Assigned{})
	}
	w.apply(ledger.Task, id, end)
	if _, succeeded := end.(*taskv1.Succeeded); succeeded && i.Wanted != nil {
		w.apply(ledger.Instance, ledger.Key(i.ServerId, i.Agent), &instancev1.Observed{
			InstanceId: i.Id, Image: i.Wanted, Health: instancev1.Health_HEALTH_GOOD, Generation: i.Generation,
			ConfigurationDigest: i.Configuration.GetDigest(),
		})
	}
}

func TestAfterAFailedFirstInstallAnotherImageIsInstalled(t *testing.T) {
	w := fleet(1)
	w.decide("install", installAll().Intent)
	if d := w.decide("install", ofVersion("2.0.0")); d.Refusal.GetCode() == "" {
		t.Error("another image is installed while the first one is under way")
	}
	w.task(w.on(0), &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.Exited}})
	w.image("two", "2.0.0")
	if d := w.decide("install", ofVersion("2.0.0")); d.Changed != 1 || w.on(0).Wanted.Version != "2.0.0" {
		t.Errorf("%d servers change, and %s is wanted: %v", d.Changed, w.on(0).Wanted.Version, d.Refusal)
	}
}

// ofVersion installs a version on every server.
func ofVersion(version string) *intentv1.Intent {
	in := proto.CloneOf(installAll().Intent)
	in.GetInstall().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	return in
}

func TestAConfigurationThatFailedIsTriedAgainWithAReason(t *testing.T) {
	w := layered(1)
	w.decide("install", installAll().Intent)
	w.task(w.on(0), &taskv1.Succeeded{})
	w.decide("configure", configure(values{"a": "bad"}))
	w.task(w.on(0), notReady)
	if w.on(0).State != instancev1.State_STATE_FAILED {
		t.Fatalf("it is %s", w.on(0).State)
	}
	if d := w.decide("configure", configure(nil)); d.Refusal.GetCode() != code.FailedBefore {
		t.Errorf("without a reason: %v; want %s", d.Refusal, code.FailedBefore)
	}
	got := counted(w.decide("configure", because(configure(nil))))
	if got != [3]uint32{1, 0, 0} || w.on(0).Generation != 3 {
		t.Errorf("counts %v, generation %d", got, w.on(0).Generation)
	}
}

func TestServersWithoutTheAgentArePassedOver(t *testing.T) {
	w := layered(2)
	if d := w.decide("configure", configure(nil)); d.Refusal.GetCode() != "NO_INSTANCES" {
		t.Errorf("refusal %v", d.Refusal)
	}
	w.decide("install", installAll().Intent)
	w.apply(ledger.Instance, ledger.Key(w.on(1).ServerId, "web"),
		&instancev1.Unwanted{InstanceId: w.on(1).Id, Generation: 2})
	if got := counted(w.decide("configure", configure(values{"x": "y"}))); got != [3]uint32{1, 0, 1} {
		t.Errorf("counts %v", got)
	}
}

func TestAWrongConfigureIsRefused(t *testing.T) {
	w := layered(1)
	w.decide("install", installAll().Intent)
	large := values{}
	for n := range metadata.MaxBytes/metadata.MaxValue - 1 {
		large[fmt.Sprintf("k%d", n)] = strings.Repeat("x", metadata.MaxValue)
	}
	w.agentValues(large)
	for name, i := range map[string]*intentv1.Intent{
		"a bad name":            configure(values{"log-level": "x"}),
		"a bad name to unset":   configure(nil, "log level"),
		"both":                  configure(values{"a": "x"}, "a"),
		"too large when merged": configure(values{"z": strings.Repeat("x", metadata.MaxValue)}),
	} {
		if d := w.decide("configure", i); d.Refusal.GetCode() != code.BadMetadata || len(d.Drafts) != 1 {
			t.Errorf("%s: %v", name, d.Refusal)
		}
	}
}
