package recordstest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/duty"
	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

var linux = &serverv1.Platform{Os: "linux", Arch: "amd64"}

// Environment creates an environment.
func (w *World) Environment(name string) {
	w.T.Helper()
	w.Fact(ledger.Environment, name, &environmentv1.Created{Environment: &environmentv1.Environment{}})
}

// Agent creates an agent of kind daemon.
func (w *World) Agent(name string, needs ...string) {
	w.T.Helper()
	w.Fact(ledger.Agent, name, &agentv1.Created{Agent: &agentv1.Agent{
		Name: name, Kind: agentv1.Kind_KIND_DAEMON, Dependencies: needs,
	}})
}

// Image creates an active image for linux/amd64 in the channel release, which is the default one. Its id is the agent
// and the version.
func (w *World) Image(agent, version string, change ...func(*imagev1.Manifest)) {
	w.T.Helper()
	if _, ok := w.View.Channel("release"); !ok {
		w.Fact(ledger.Channel, "release", &channelv1.Created{Default: true})
	}
	m := &imagev1.Manifest{
		Id: agent + "-" + version, Agent: agent, Version: version, Kind: agentv1.Kind_KIND_DAEMON, Platform: linux,
		Blob: &imagev1.Blob{Digest: []byte(agent + version)},
	}
	for _, c := range change {
		c(m)
	}
	for _, body := range []proto.Message{
		&imagev1.Created{Manifest: m}, &imagev1.Filled{}, &imagev1.Activated{},
	} {
		w.Fact(ledger.Image, m.Id, body)
	}
	w.Fact(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: m.Id})
}

// Server enrols a server of an environment, or of none, that is online. Its id is ServerID of its name.
func (w *World) Server(name, environment string) string {
	w.T.Helper()
	id := ServerID(name)
	w.Fact(ledger.Server, id, &serverv1.Invited{Name: name, Cell: "main", Environment: environment})
	w.Fact(ledger.Server, id, &serverv1.Enrolled{PublicKey: name, Sysinfo: &serverv1.Sysinfo{Platform: linux}})
	w.Fact(ledger.Server, id, &serverv1.Online{})
	return id
}

// ServerID returns the id of a server.
func ServerID(name string) string { return ident.From("server", name) }

// Instance returns the instance of an agent on a server, or nil.
func (w *World) Instance(server, agent string) *instancev1.Instance {
	i, _ := w.View.Instance(server, agent)
	return i
}

// Decide decides an intent of alice and records what follows.
func (w *World) Decide(verb string, in *intentv1.Intent) intent.Decision {
	w.T.Helper()
	ask := intent.Ask{ID: ident.New(), Actor: "alice", Verb: verb, At: w.At, Intent: in}
	ask.Undone, _ = w.View.Intent(in.GetUndo().GetIntentId())
	d := intent.Decide(w.View, ask)
	if _, err := w.Append(context.Background(), d.Drafts...); err != nil {
		w.T.Fatal(err)
	}
	return d
}

// Accept is Decide of an intent that must be accepted. It returns the id.
func (w *World) Accept(verb string, in *intentv1.Intent) string {
	w.T.Helper()
	d := w.Decide(verb, in)
	if d.Refusal != nil {
		w.T.Fatalf("%s is refused: %s", verb, fault.Line(d.Refusal))
	}
	return d.Drafts[len(d.Drafts)-1].Key
}

// Work does the tasks of all instances that have none yet, or whose generation is new, and the duties that follow. They
// fail, and are rolled back, where fails says so.
func (w *World) Work(fails func(*instancev1.Instance) bool) {
	w.T.Helper()
	var due []*instancev1.Instance
	for server := range w.View.AllServers() {
		for i := range w.View.InstancesOf(server.Id) {
			if i.TaskGeneration != i.Generation || i.TaskState == taskv1.State_STATE_UNSPECIFIED {
				due = append(due, proto.CloneOf(i))
			}
		}
	}
	for _, i := range due {
		w.Do(i, fails != nil && i.Wanted != nil && fails(i))
	}
	w.Duties()
}

// Task records what is said of a new task of an instance, and returns the task.
func (w *World) Task(i *instancev1.Instance, said ...proto.Message) string {
	w.T.Helper()
	id, verb := ident.New(), taskv1.Verb_VERB_UPGRADE
	if i.Wanted == nil {
		verb = taskv1.Verb_VERB_REMOVE
	}
	said = append([]proto.Message{&taskv1.Queued{
		Verb: verb, ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.Id, Generation: i.Generation, Attempt: 1,
		From: i.Observed, To: i.Wanted, IntentId: i.IntentId,
	}}, said...)
	for _, body := range said {
		w.Fact(ledger.Task, id, body)
	}
	return id
}

// Do records a task of an instance to its end, and what is observed then: what is wanted, or what was there before when
// it fails. Nothing is observed after a removal.
func (w *World) Do(i *instancev1.Instance, fails bool) {
	w.T.Helper()
	now, end := i.Wanted, proto.Message(&taskv1.Succeeded{})
	if fails {
		now, end = i.Observed, &taskv1.Undone{Outcome: &taskv1.Outcome{
			Code: w.Fails, Reason: "it did not start", FailedStep: taskv1.Step_STEP_PROVE,
		}}
	}
	w.Task(i, &taskv1.Assigned{}, &taskv1.Started{}, end)
	if i.Wanted == nil {
		return
	}
	w.Fact(ledger.Instance, ledger.Key(i.ServerId, i.Agent), &instancev1.Observed{
		InstanceId: i.Id, Generation: i.Generation, Image: now, Health: instancev1.Health_HEALTH_GOOD,
		ConfigurationDigest: i.Configuration.GetDigest(),
	})
}

// Duties does what follows from the state of every server until nothing does, without signing the end of one.
func (w *World) Duties() {
	w.T.Helper()
	for n := 1; n > 0; {
		n = 0
		for _, id := range slices.Collect(w.View.ServersWithDuties()) {
			s, _ := w.View.Server(id)
			for _, change := range slices.Concat(duty.Units(s, w.View.InstancesOf(id), time.Now())...) {
				n++
				if change.Instance == nil {
					w.Fact(ledger.Server, id, change.Body)
					continue
				}
				w.Fact(ledger.Instance, ledger.Key(id, change.Instance.Agent), change.Body)
			}
		}
	}
}

// On selects servers by name or id.
func On(servers ...string) *intentv1.Selector { return &intentv1.Selector{Servers: servers} }

// Everywhere selects every server.
func Everywhere() *intentv1.Selector { return &intentv1.Selector{All: true} }

// Version chooses an image by its version; without one, the newest.
func Version(v string) *intentv1.ImageChoice {
	if v == "" {
		return nil
	}
	return &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: v}}
}

// Install is an intent that installs an agent on many servers if need be.
func Install(agent string, on *intentv1.Selector) *intentv1.Intent {
	return &intentv1.Intent{
		AtOnce: true, Ask: &intentv1.Intent_Install{Install: &intentv1.Install{Agent: agent, On: on}},
	}
}

// Upgrade is an intent that upgrades an agent on many servers if need be; without a version to the newest.
func Upgrade(agent, version string, on *intentv1.Selector) *intentv1.Intent {
	up := &intentv1.Upgrade{Agent: agent, On: on, Image: Version(version)}
	return &intentv1.Intent{AtOnce: true, Ask: &intentv1.Intent_Upgrade{Upgrade: up}}
}
