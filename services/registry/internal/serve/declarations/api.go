package declarations

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/keep"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	agentnoun "github.com/garrison-fleet/garrison/pkg/noun/agent"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/window"
	"github.com/garrison-fleet/garrison/services/registry/internal/drift"
	"github.com/garrison-fleet/garrison/services/registry/internal/external"
	"github.com/garrison-fleet/garrison/services/registry/internal/image"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/request"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/table"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// maxDependencies bounds what one agent depends on.
const maxDependencies = 64

// applications returns the operations on applications, which group agents.
func applications(r *records.Records) *declared[*applicationv1.Application] {
	type record = *applicationv1.Application
	return &declared[record]{
		records: r, noun: ledger.Application, command: "garrison app",
		created: func(a record) proto.Message { return &applicationv1.Created{Application: a} },
		changed: func(a record) proto.Message { return &applicationv1.Changed{Application: a} },
		deleted: &applicationv1.Deleted{},
		get:     r.View.Application,
		rows:    r.View.Applications,
		unknown: func(name string) error { return UnknownApplication(r, name) },
		users: func(name string) (int, string, string) {
			return r.View.AgentsIn(name), "agents", "garrison agent list"
		},
		concerns: func(a record) (concern, after) {
			return concern{application: a.Name}, after{View: r.View, application: a}
		},
	}
}

// environments returns the operations on environments, which group servers.
func environments(r *records.Records) *declared[*environmentv1.Environment] {
	type record = *environmentv1.Environment
	return &declared[record]{
		records: r, noun: ledger.Environment, command: "garrison env",
		created: func(e record) proto.Message { return &environmentv1.Created{Environment: e} },
		changed: func(e record) proto.Message { return &environmentv1.Changed{Environment: e} },
		deleted: &environmentv1.Deleted{},
		get:     r.View.Environment,
		rows:    r.View.Environments,
		unknown: func(name string) error { return request.NotFound(selector.UnknownEnvironment(r.View, name)) },
		check:   checkEnvironment,
		fits:    func(have, next record) error { return environmentFits(r, have, next) },
		users: func(name string) (int, string, string) {
			return r.View.ServersIn(name), "servers", "garrison server list --env " + name
		},
		concerns: func(e record) (concern, after) {
			return concern{environment: e.Name}, after{View: r.View, environment: e}
		},
	}
}

// agents returns the operations on agents.
func agents(r *records.Records) *declared[*agentv1.Agent] {
	type record = *agentv1.Agent
	return &declared[record]{
		records: r, noun: ledger.Agent, command: "garrison agent",
		created: func(a record) proto.Message { return &agentv1.Created{Agent: a} },
		changed: func(a record) proto.Message { return &agentv1.Changed{Agent: a} },
		deleted: &agentv1.Deleted{},
		get:     r.View.Agent,
		rows:    r.View.Agents,
		unknown: func(name string) error { return request.NotFound(intent.UnknownAgent(r.View, name)) },
		check:   checkAgent,
		fits:    func(have, next record) error { return agentFits(r, have, next) },
		users: func(name string) (int, string, string) {
			if n := r.View.DefaultsFor(name); n > 0 {
				return n, "environment defaults", "garrison env default ENVIRONMENT " + name + " --none"
			}
			n := r.View.InstancesOn(name) + r.View.ExternalsOf(name)
			return n, "instances", "garrison instance list --agent " + name
		},
		concerns: func(a record) (concern, after) {
			return concern{agent: a.Name}, after{View: r.View, agent: a}
		},
	}
}

// checkEnvironment checks the fields that only an environment has.
func checkEnvironment(e *environmentv1.Environment) error {
	if e.Name == environment.None {
		return request.Invalid(code.BadName,
			"environment %q: the name stands for servers without an environment", e.Name)
	}
	if e.Name == "all" {
		return request.Invalid(code.BadName, "environment %q: the name stands for every server", e.Name)
	}
	if _, ok := environmentv1.DriftPolicy_name[int32(e.Drift)]; !ok {
		return request.Invalid(code.Invalid,
			"environment %q: want one of the drift policies report, heal, hold", e.Name)
	}
	if e.DriftBrake > 100 {
		return request.Invalid(code.Invalid,
			"environment %q: a brake of %d %%; 100 is the most", e.Name, e.DriftBrake)
	}
	if err := window.Check(e); err != nil {
		refusal := request.Invalid(code.Invalid, "environment %q: %v", e.Name, err)
		if window.CheckBusyLimit(e) != nil {
			return refusal.Try("garrison env update " + e.Name + " --busy-limit 1h")
		}
		return refusal.Try("garrison env update --help")
	}
	if err := keep.Check(e.Keep); err != nil {
		return request.Invalid(code.Invalid, "environment %q: %v", e.Name, err)
	}
	if e.Channel == "" {
		return nil
	}
	if err := ident.CheckName("channel", e.Channel); err != nil {
		return request.BadName(err)
	}
	return nil
}

// environmentFits checks that the channel that an environment is set to exists, and that a change of its drift policy
// does not heal many servers at once. It must run inside Read.
func environmentFits(r *records.Records, have, next *environmentv1.Environment) error {
	if have != nil && drift.Widens(have, next) {
		repair := intent.RepairInWaves(&intentv1.Selector{Environment: next.Name})
		if refusal := drift.TooWide(next.Name, drifting(r, next.Name), intent.MostAtOnce, repair); refusal != nil {
			return fault.Refuse(fault.Invalid, refusal)
		}
	}
	if next.Channel == "" || next.Channel == have.GetChannel() {
		return nil
	}
	if refusal := image.CheckChannel(r.View, next.Channel); refusal != nil {
		return request.NotFound(refusal)
	}
	return nil
}

// drifting counts the online servers of an environment, and those that drift.
func drifting(r *records.Records, name string) drift.Count {
	tally := drift.NewTally()
	for s := range r.View.AllServers() {
		if s.Environment == name {
			tally.Set(s.Id, s, r.View.InstancesOf(s.Id))
		}
	}
	return tally.Of(name)
}

// checkAgent checks the fields that only an agent has.
func checkAgent(a *agentv1.Agent) error {
	if _, ok := agentv1.Kind_name[int32(a.Kind)]; !ok || a.Kind == agentv1.Kind_KIND_UNSPECIFIED {
		return request.Invalid(code.Invalid,
			"agent %q: want one of the kinds daemon, oneshot, files, self, external", a.Name)
	}
	if a.Name == view.Executor && a.Kind != agentv1.Kind_KIND_SELF {
		return request.Invalid(code.Invalid, "agent %q is the executor of each server, of kind self", a.Name).
			Try("garrison agent create " + a.Name + " --kind self")
	}
	if refusal := external.CheckAgent(a); refusal != nil {
		return fault.Refuse(fault.Invalid, refusal)
	}
	if len(a.Dependencies) > maxDependencies {
		return request.Invalid(code.Invalid,
			"agent %q: %d dependencies; %d are the most", a.Name, len(a.Dependencies), maxDependencies)
	}
	return intent.CheckSchema(a.Schema)
}

// agentFits checks that an agent's kind stays, that the records it names exist, and that no agent
// depends on itself. It must run inside Read.
func agentFits(r *records.Records, have, next *agentv1.Agent) error {
	if have != nil && have.Kind != next.Kind {
		return request.Invalid(code.FieldFixed,
			"agent %q is of kind %s and stays so; it cannot become %s", next.Name, agentnoun.KindWord(have.Kind),
			agentnoun.KindWord(next.Kind))
	}
	if next.Application != "" {
		if _, ok := r.View.Application(next.Application); !ok {
			return UnknownApplication(r, next.Application)
		}
	}
	for n, d := range next.Dependencies {
		if slices.Contains(next.Dependencies[:n], d) {
			return request.Invalid(code.Invalid, "agent %q needs agent %q twice", next.Name, d)
		}
		if _, ok := r.View.Agent(d); !ok && d != next.Name {
			return request.NotFound(intent.UnknownAgent(r.View, d))
		}
		if dependsOn(r, d, next.Name, map[string]bool{}) {
			return request.Invalid(code.DependencyCycle,
				"agent %q depends on %q, which depends on it", next.Name, d)
		}
	}
	return nil
}

// dependsOn reports whether an agent is another one, or needs it directly or indirectly.
func dependsOn(r *records.Records, name, other string, seen map[string]bool) bool {
	if name == other {
		return true
	}
	if seen[name] {
		return false
	}
	seen[name] = true
	a, _ := r.View.Agent(name)
	for _, d := range a.GetDependencies() {
		if dependsOn(r, d, other, seen) {
			return true
		}
	}
	return false
}

// UnknownApplication refuses the name of an application that does not exist. It must run inside Read.
func UnknownApplication(r *records.Records, name string) error {
	return request.NotFound(&apiv1.Refusal{
		Code: code.NotFound, Message: fmt.Sprintf("no application %q", name),
		Nearest: nearest.Name(name, r.View.ApplicationNames()), Try: "garrison app list",
	})
}

// Nouns returns how applications, environments and agents are kept.
func Nouns(r *records.Records) []table.Kept {
	return []table.Kept{applications(r).kept(), environments(r).kept(), agents(r).kept()}
}
