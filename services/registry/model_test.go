package registry

import (
	"context"
	"flag"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// usualChecks is how many histories the model goes through when -rapid.checks does not say it.
const usualChecks = 5

// model takes random steps with two replicas of the registry on one bus, a dispatcher that opens and ends tasks, and
// servers that do and report what their tasks say.
type model struct {
	*site
	rt       *rapid.T
	replicas *[2]replica
	history  string        // a part of names, so that histories do not meet
	servers  []*host       // that were not given up
	former   []*host       // that were
	intents  []bus.Message // as the bus would deliver them
	rules    map[string]*labelrulev1.LabelRule
}

// replica is one of the two registries. After a kill it is nil, until another one takes its place.
type replica struct {
	*Registry
	stop func()
}

// host is a server as it is.
type host struct {
	id, name string
	has      map[string]*reportv1.Found // by agent
	open     map[string]*instancev1.Instance
	tasks    map[string]string // ids of open tasks, by agent
	reports  uint64
}

// The names that histories draw from.
var (
	modelAgents   = []string{"db", "web"}
	modelVersions = []string{"1.0.0", "2.0.0"}
)

// TestTwoReplicasAgreeWhateverHappens goes through random histories, in which replicas are restarted and killed, agents
// are held, and servers join by tokens and from the lobby, move, are reinstalled, decommissioned, lost and forgotten.
// After each, every intent is answered once, every server has an agent once and the labels of the rules, a server that
// ended has none, both replicas and a new fold of the ledger hold the same, and indexes equal a scan.
func TestTwoReplicasAgreeWhateverHappens(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.channel("release", true)
	for _, agent := range modelAgents {
		s.agent(agent)
		for _, version := range modelVersions {
			s.image(agent, version, "release")
		}
	}
	replicas := &[2]replica{{s.r, s.stop}}
	replicas[1].Registry, replicas[1].stop = s.registry()
	n, passed, enough := 0, 0, checks()
	rapid.Check(t, func(rt *rapid.T) {
		if passed >= enough { // rapid has no number of checks for one test
			return
		}
		n++
		m := &model{
			site: s, rt: rt, replicas: replicas, history: fmt.Sprint("h", n),
			rules: map[string]*labelrulev1.LabelRule{},
		}
		m.begin()
		for range rapid.IntRange(10, 60).Draw(rt, "steps") {
			m.step()
		}
		m.settle()
		m.check()
		passed++
	})
}

// checks returns how many histories a model goes through.
func checks() int {
	n := usualChecks
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "rapid.checks" {
			n = math.MaxInt
		}
	})
	return n
}

// begin makes the servers and environments of a history.
func (m *model) begin() {
	for _, e := range m.environments() {
		m.site.put(record.Create(&environmentv1.Environment{Name: e}))
	}
	for n := range 3 {
		m.enrolled(fmt.Sprint(m.history, "-", n), m.environments()[n%2])
	}
}

// enrolled adds a server, with a token or from the lobby.
func (m *model) enrolled(name, environment string) {
	join := draw(m, "join", []func(name, environment string) string{m.join, m.fromLobby})
	m.servers = append(m.servers, &host{
		id: join(name, environment), name: name, has: map[string]*reportv1.Found{},
		open: map[string]*instancev1.Instance{}, tasks: map[string]string{},
	})
}

func (m *model) environments() []string { return []string{m.history + "-a", m.history + "-b"} }

func draw[T any](m *model, what string, of []T) T { return rapid.SampledFrom(of).Draw(m.rt, what) }

func (m *model) step() {
	steps := []func(){
		m.ask, m.ask, m.ask, m.dispatch, m.dispatch, m.dispatch, m.dispatch, m.report, m.report, m.deliverReport,
		m.deliverIntent, m.setDefault, m.move, m.restart, m.kill, m.decommission, m.forget,
		m.hold, m.hold, m.rule, m.reinstall,
	}
	draw(m, "step", steps)()
}

// ask publishes an intent, and does not wait for its outcome.
func (m *model) ask() {
	var names []string
	for _, h := range m.servers {
		if rapid.Bool().Draw(m.rt, "on") {
			names = append(names, h.name)
		}
	}
	if len(names) == 0 {
		return
	}
	agent := draw(m, "agent", modelAgents)
	verb := draw(m, "verb", []string{
		topology.VerbInstall, topology.VerbUpgrade, topology.VerbRemove, topology.VerbConfigure,
	})
	i := map[string]*intentv1.Intent{
		topology.VerbInstall: install(agent, on(names...)), topology.VerbRemove: remove(agent, on(names...)),
		topology.VerbUpgrade: upgrade(agent, draw(m, "version", modelVersions), on(names...)),
		topology.VerbConfigure: configure(agent,
			map[string]string{"level": draw(m, "level", []string{"info", "debug"})}, on(names...)),
	}[verb]
	m.publish(verb, i)
}

// publish publishes an intent, and keeps it to be delivered again.
func (m *model) publish(verb string, i *intentv1.Intent) {
	data, err := protojson.Marshal(i)
	if err != nil {
		m.rt.Fatal(err)
	}
	message := bus.Message{
		Subject: topology.IntentSubject(verb, "alice", ident.New()), Delivered: 1, Data: data,
		Header: map[string][]string{"Content-Type": {"application/json"}},
	}
	m.publishRaw(bus.Durable{Subject: message.Subject, Once: true, Type: "application/json", Data: data})
	m.intents = append(m.intents, message)
}

// deliverIntent delivers an intent again, to any replica.
func (m *model) deliverIntent() {
	if len(m.intents) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	again := draw(m, "intent", m.intents)
	again.Delivered = 2
	if err := m.anyReplica().intents.Handle(ctx, again); err != nil {
		m.rt.Fatalf("deliver an intent again: %v", err)
	}
}

// running returns the replicas that run.
func (m *model) running() (out []*Registry) {
	for _, r := range m.replicas {
		if r.Registry != nil {
			out = append(out, r.Registry)
		}
	}
	return out
}

func (m *model) anyReplica() *Registry { return draw(m, "replica", m.running()) }

// instances returns what a replica has of a server, by agent, up to the end of the ledger.
func (m *model) instances(h *host) map[string]*instancev1.Instance {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := m.r
	if err := r.records.Decider.CatchUp(ctx); err != nil {
		m.rt.Fatal(err)
	}
	out := map[string]*instancev1.Instance{}
	r.follower.Read(func() {
		for i := range r.records.View.InstancesOf(h.id) {
			out[i.Agent] = proto.CloneOf(i)
		}
	})
	return out
}

// dispatch opens a task where one is due, or ends one.
func (m *model) dispatch() {
	h, agent := draw(m, "server", m.servers), draw(m, "agent", modelAgents)
	if h.open[agent] != nil {
		m.end(h, agent, rapid.IntRange(0, 3).Draw(m.rt, "good") > 0)
		return
	}
	if i := m.instances(h)[agent]; i != nil && i.TaskId == "" {
		m.open(h, i)
	}
}

// open opens a task of an instance's present generation.
func (m *model) open(h *host, i *instancev1.Instance) {
	id, verb := ident.New(), taskv1.Verb_VERB_INSTALL
	if i.Wanted == nil {
		verb = taskv1.Verb_VERB_REMOVE
	}
	m.append(fact(ledger.Task, id, &taskv1.Queued{
		Verb: verb, ServerId: h.id, Agent: i.Agent, InstanceId: i.Id, Generation: i.Generation, Attempt: 1,
		From: h.has[i.Agent].GetImage(), To: i.Wanted, IntentId: i.IntentId,
	}), fact(ledger.Task, id, &taskv1.Assigned{}))
	h.open[i.Agent], h.tasks[i.Agent] = i, id
}

// end does what a task says, or not, and records how it ended.
func (m *model) end(h *host, agent string, good bool) {
	i, id := h.open[agent], h.tasks[agent]
	delete(h.open, agent)
	if !good {
		m.append(fact(ledger.Task, id, &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.NotReady}}))
		return
	}
	if i.Wanted == nil {
		delete(h.has, agent)
	} else {
		h.has[agent] = &reportv1.Found{
			Agent: agent, InstanceId: i.Id, Generation: i.Generation, Image: proto.CloneOf(i.Wanted),
			Health: instancev1.Health_HEALTH_GOOD, ConfigurationDigest: i.Configuration.GetDigest(),
		}
	}
	m.append(fact(ledger.Task, id, &taskv1.Succeeded{Outcome: &taskv1.Outcome{}}))
}

// report publishes what a server has, perhaps with an agent that broke. One that was given up may come back.
func (m *model) report() {
	h := draw(m, "server", slices.Concat(m.servers, m.former))
	if f := h.has[draw(m, "agent", modelAgents)]; f != nil {
		f.Health = draw(m, "health", []instancev1.Health{
			instancev1.Health_HEALTH_GOOD, instancev1.Health_HEALTH_GOOD, instancev1.Health_HEALTH_BAD,
		})
	}
	m.say(h)
}

func (m *model) say(h *host) {
	h.reports++
	list := &reportv1.AgentsReport{}
	for _, agent := range modelAgents {
		if f := h.has[agent]; f != nil {
			list.Agents = append(list.Agents, proto.CloneOf(f))
		}
	}
	m.site.report(topology.ReportAgents, &reportv1.Report{
		ServerId: h.id, Sequence: h.reports, BootId: "boot", JournalId: "journal",
		Body: &reportv1.Report_Agents{Agents: list},
	})
}

// deliverReport delivers any report again, out of order, to any replica.
func (m *model) deliverReport() {
	h := draw(m, "server", slices.Concat(m.servers, m.former))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	subject := topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: h.id}, topology.ReportAgents)
	stored, err := m.ops.DirectGetFrom(ctx, topology.Reports, subject, 1, 100)
	if err != nil {
		m.rt.Fatal(err)
	}
	if len(stored) == 0 {
		return
	}
	again := draw(m, "report", stored)
	again.Delivered = 2
	err = m.anyReplica().reports.HandleAgents(ctx, again)
	if forgotten := slices.Contains(m.former, h) && fault.Is(err, fault.Unavailable); err != nil && !forgotten {
		m.rt.Fatalf("deliver a report again: %v", err)
	}
}

// setDefault sets or unsets a default.
func (m *model) setDefault() {
	e, agent := draw(m, "environment", m.environments()), draw(m, "agent", modelAgents)
	if rapid.Bool().Draw(m.rt, "unset") {
		m.unsetDefault(e, agent)
		return
	}
	reach := draw(m, "reach", []environmentv1.Reach{reachNew, reachAll})
	must[*registryv1.SetDefaultResponse](m.site, "SetDefault",
		&registryv1.SetDefaultRequest{Environment: e, Agent: agent, Reach: reach})
}

// unsetDefault unsets a default that may be there.
func (m *model) unsetDefault(environment, agent string) {
	q := &registryv1.UnsetDefaultRequest{Environment: environment, Agent: agent}
	_, err := ask[*registryv1.UnsetDefaultResponse](m.site, "UnsetDefault", q)
	if have := codeOf(err); have != "none" && have != code.NotFound {
		m.rt.Fatalf("unset a default: %v", err)
	}
}

// move moves a server to another environment.
func (m *model) move() {
	h := draw(m, "server", m.servers)
	to := draw(m, "environment", slices.Concat(m.environments(), []string{""}))
	_, err := ask[*registryv1.MoveServersResponse](m.site, "MoveServers",
		&registryv1.MoveServersRequest{On: on(h.id), Environment: to})
	if err != nil && m.life(h) == serverv1.Life_LIFE_ALIVE { // one that ends is refused
		m.rt.Fatalf("move a server: %v", err)
	}
}
