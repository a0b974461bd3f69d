package declarations

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
)

// A policy that becomes to heal, and a brake that is lifted, let every executor of the environment heal at once.
func TestAPolicyThatWouldHealManyServersAtOnceIsRefused(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	w.Agent("web")
	w.Image("web", "1.0.0")
	for name, servers := range map[string]int{"wide": intent.MostAtOnce + 1, "small": intent.MostAtOnce} {
		w.Environment(name)
		for n := range servers {
			w.Server(fmt.Sprint(name, n), name)
		}
	}
	w.Accept(topology.VerbInstall, recordstest.Install("web", recordstest.Everywhere()))
	for i := range w.View.InstancesOfAgent("web") {
		w.Fact(ledger.Instance, ledger.Key(i.ServerId, "web"), &instancev1.Observed{
			InstanceId: i.Id, Generation: 1, Image: i.Wanted, Code: code.Damaged, Health: instancev1.Health_HEALTH_BAD,
		})
	}
	const report, heal = environmentv1.DriftPolicy_DRIFT_POLICY_REPORT, environmentv1.DriftPolicy_DRIFT_POLICY_HEAL
	of := func(name string, p environmentv1.DriftPolicy, brake uint32) *environmentv1.Environment {
		return &environmentv1.Environment{Name: name, Drift: p, DriftBrake: brake}
	}
	for name, c := range map[string]struct {
		have, next *environmentv1.Environment
		code       string
	}{
		"to heal many":                  {of("wide", report, 100), of("wide", heal, 100), code.TooWide},
		"to report under another brake": {of("wide", report, 50), of("wide", report, 60), ""},
		"to heal as many as may be":     {of("small", report, 100), of("small", heal, 100), ""},
		"a brake that is lifted":        {of("wide", heal, 20), of("wide", heal, 100), code.TooWide},
	} {
		if err := environmentFits(w.Records, c.have, c.next); recordstest.CodeOf(err) != c.code {
			t.Errorf("%s: %v; want %q", name, err, c.code)
		}
	}
}

func TestARepeatedChangeIsAcceptedAlthoughADependencyIsGone(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	api := table.New(w.Records, zerolog.Nop(), Nouns(w.Records)...)
	w.Agent("db")
	w.Agent("web", "db")
	w.Fact(ledger.Agent, "db", &agentv1.Deleted{})
	change := func(needs ...string) string {
		return recordstest.Code(w, api.Put, record.Change(&agentv1.Agent{
			Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Dependencies: needs,
		}))
	}
	if have := change("db"); have != "" {
		t.Errorf("the same again: %q", have)
	}
	if have := change("db", "web2"); have != code.UnknownAgent {
		t.Errorf("a change that names unknown agents: %q", have)
	}
}

func TestAnEnvironmentThatCannotBeIsRefused(t *testing.T) {
	t.Parallel()
	type env = environmentv1.Environment
	for want, e := range map[string]*env{
		code.BadName + " none":    {Name: "none"},
		code.BadName + " channel": {Name: "prod", Channel: "A b"},
		code.Invalid + " drift":   {Name: "prod", Drift: 99},
		code.Invalid + " 101":     {Name: "prod", DriftBrake: 101},
		code.Invalid + " window":  {Name: "prod", Windows: []*environmentv1.Window{{Minutes: 60, Zone: "Mars"}}},
		code.Invalid + " keep":    {Name: "prod", Keep: []*rolloutv1.Keep{{}}},
		"":                        {Name: "prod", DriftBrake: 100, Channel: "release"},
	} {
		wanted, _, _ := strings.Cut(want, " ")
		if err := checkEnvironment(e); recordstest.CodeOf(err) != wanted {
			t.Errorf("%v: %v; want %q", e, err, wanted)
		}
	}
}
