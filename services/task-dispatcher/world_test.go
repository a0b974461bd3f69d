package dispatcher

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// world is a bus, and a writer of the facts that the registry and the image-catalog would write.
type world struct {
	t      testing.TB
	bus    *bustest.Bus
	conn   *bus.Conn
	writer *bus.Writer
}

func newWorld(t testing.TB) *world {
	b := bustest.Start(t)
	conn := b.Dial(t, "registry")
	return &world{t: t, bus: b, conn: conn, writer: b.Writer(t, conn)}
}

// start runs a dispatcher until stop is called or the test ends.
func (w *world) start(c Config) (d *Dispatcher, stop func()) {
	w.t.Helper()
	c.Conn, c.Log = w.bus.Dial(w.t, ledger.Dispatcher), zerolog.Nop()
	d, err := New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	stop = bustest.Serve(w.t, d.Run, d.follower.Serving())
	return d, stop
}

func (w *world) say(noun ledger.Noun, key string, body proto.Message) uint64 {
	w.t.Helper()
	seq, err := w.writer.Append(context.Background(), ledger.Free(testFact(noun, key, body)))
	if err != nil {
		w.t.Fatalf("append %T: %v", body, err)
	}
	return seq
}

func testFact(noun ledger.Noun, key string, body proto.Message) ledger.Fact {
	return ledger.Fact{
		Noun:   noun,
		Key:    key,
		Body:   body,
		ID:     ident.New(),
		At:     time.Now(),
		Source: noun.Writer(),
		Actor:  "ann",
	}
}

func serverID(n int) string { return ident.From("test server", fmt.Sprint(n)) }

// enrol adds servers that are alive and online.
func (w *world) enrol(ids ...string) {
	w.t.Helper()
	for _, id := range ids {
		w.say(ledger.Server, id, &serverv1.Invited{Name: "host", Cell: "main"})
		w.say(ledger.Server, id, &serverv1.Enrolled{PublicKey: "U"})
		w.say(ledger.Server, id, &serverv1.Online{BootId: "b"})
	}
}

// image adds an image of an agent.
func (w *world) image(agent, version string) *imagev1.Ref {
	w.t.Helper()
	id := ident.From("test image", agent, version)
	w.say(ledger.Image, id, &imagev1.Created{Manifest: &imagev1.Manifest{Id: id, Agent: agent, Version: version}})
	w.say(ledger.Image, id, &imagev1.Filled{})
	return &imagev1.Ref{Id: id, Version: version}
}

func (w *world) agent(name string, tier uint32, needs ...string) {
	w.t.Helper()
	w.say(ledger.Agent, name, &agentv1.Created{
		Agent: &agentv1.Agent{Name: name, Kind: agentv1.Kind_KIND_DAEMON, Tier: tier, Dependencies: needs},
	})
}

func instanceID(server, agent string) string { return ident.From("test instance", server, agent) }

func (w *world) want(server, agent string, generation uint64, image *imagev1.Ref) {
	w.t.Helper()
	w.say(ledger.Instance, ledger.Key(server, agent), &instancev1.Wanted{
		InstanceId: instanceID(server,
			agent), Generation: generation, Image: image, IntentId: ident.From("intent", agent, fmt.Sprint(generation)),
	})
}

func (w *world) unwant(server, agent string, generation uint64) {
	w.t.Helper()
	w.say(ledger.Instance, ledger.Key(server, agent),
		&instancev1.Unwanted{InstanceId: instanceID(server, agent), Generation: generation})
}

// document reads a server's stored document; nil when it has none yet.
func (w *world) document(server string) *desiredv1.Document {
	m, err := w.conn.DirectGet(context.Background(), topology.Desired,
		topology.DesiredSubject(topology.ServerAddress{Cell: "main", Server: server}))
	if err != nil {
		return nil
	}
	var d desiredv1.Document
	if err := proto.Unmarshal(m.Data, &d); err != nil {
		w.t.Errorf("document of %s: %v", server, err)
	}
	return &d
}

// sequenceOf returns the sequence of a server's document.
func (w *world) sequenceOf(server string) uint64 {
	m, err := w.conn.DirectGet(context.Background(), topology.Desired,
		topology.DesiredSubject(topology.ServerAddress{Cell: "main", Server: server}))
	if err != nil {
		w.t.Fatal(err)
	}
	return m.Sequence
}

// settles waits until the ledger has not grown for a while, and a dispatcher has folded it and written every document.
// It counts answers of the bus instead of time, which also passes while a busy machine runs nothing of this process.
func (w *world) settles(d *Dispatcher) {
	w.t.Helper()
	last, quiet := uint64(0), 0
	polltest.Eventually(w.t, "the ledger settles", func() bool {
		s, err := w.conn.Stream(context.Background(), topology.Ledger)
		if err != nil {
			w.t.Fatal(err)
		}
		if s.LastSequence != last || d.follower.Position() != last || !d.publisher.changed.idle() {
			last, quiet = s.LastSequence, 0
		}
		quiet++
		return quiet > 60
	})
}

// desiredEnd returns the sequence of the last document that was written.
func (w *world) desiredEnd() uint64 {
	s, err := w.conn.Stream(context.Background(), topology.Desired)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.LastSequence
}

// report publishes a report of a task, as its server would.
func (w *world) report(server, taskID string, state taskv1.State, outcome *taskv1.Outcome) {
	r := &reportv1.Report{
		ServerId: server,
		BootId:   "b",
		Sequence: 1,
		Body: &reportv1.Report_Task{Task: &reportv1.TaskReport{
			TaskId: taskID, State: state, Outcome: outcome,
		}},
	}
	w.publish(topology.ReportSubject(topology.ServerAddress{Cell: "main", Server: server}, topology.ReportTask), r)
}

func (w *world) publish(subject string, m proto.Message) {
	data, err := proto.Marshal(m)
	if err == nil {
		_, err = w.conn.PublishDurable(context.Background(), bus.Durable{Subject: subject, Data: data})
	}
	if err != nil {
		w.t.Errorf("publish on %s: %v", subject, err)
	}
}

// call sends a request to a dispatcher over the bus.
func call[R proto.Message](w *world, method string, q proto.Message) (R, error) {
	s := dispatcherv1.File_garrison_dispatcher_v1_dispatcher_service_proto.Services().ByName("DispatcherService")
	m := s.Methods()
	for i := range m.Len() {
		if string(m.Get(i).Name()) == method {
			return bus.Call[R](context.Background(), w.conn, ledger.Dispatcher, m.Get(i), q)
		}
	}
	panic(method)
}

// tasks lists the tasks of a server, the newest first.
func (w *world) tasks(d *Dispatcher, server string) []*taskv1.Task {
	r, err := d.api.listTasks(context.Background(), bus.Caller{}, &dispatcherv1.ListTasksRequest{ServerId: server})
	if err != nil {
		w.t.Fatal(err)
	}
	return r.Tasks
}

// awaitTask waits until the newest task of an agent on a server is in a state.
func (w *world) awaitTask(d *Dispatcher, server, agent string, generation uint64, state taskv1.State) *taskv1.Task {
	w.t.Helper()
	var found *taskv1.Task
	polltest.Eventually(w.t, fmt.Sprintf("task of %s generation %d is %v", agent, generation, state), func() bool {
		for _, t := range w.tasks(d, server) {
			if t.Agent == agent && t.Generation == generation {
				found = t
				return t.State == state
			}
		}
		return false
	})
	return found
}

// executors stand for the executors of all servers: at a bell they read the document, and report the
// outcome of each task in it once.
type executors struct {
	w       *world
	outcome func(taskv1.Verb, string) taskv1.State // by verb and agent
	mu      sync.Mutex
	done    map[string]bool
	paused  bool
}

// pause makes the executors ignore all further bells.
func (e *executors) pause() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = true
}

func (w *world) execute(outcome func(verb taskv1.Verb, agent string) taskv1.State) *executors {
	w.t.Helper()
	e := &executors{w: w, outcome: outcome, done: map[string]bool{}}
	bells := make(chan string, 100_000)
	stopBell, err := w.conn.Subscribe(topology.BellSubjects, func(m bus.Message) {
		if a, err := topology.ParseBellSubject(m.Subject); err == nil {
			bells <- a.Server
		}
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(stopBell)
	for range 8 {
		bustest.Go(w.t, func(ctx context.Context) error {
			for {
				select {
				case server := <-bells:
					e.converge(server)
				case <-ctx.Done():
					return nil
				}
			}
		})
	}
	return e
}

func (e *executors) converge(server string) {
	d := e.w.document(server)
	for _, x := range d.GetEntries() {
		e.do(server, x.TaskId, x.Verb, x.Agent)
	}
	for _, x := range d.GetRemovals() {
		e.do(server, x.TaskId, taskv1.Verb_VERB_REMOVE, x.Agent)
	}
	for _, x := range d.GetRequests() {
		e.do(server, x.TaskId, taskv1.Verb_VERB_REFRESH, "")
	}
}

func (e *executors) do(server, taskID string, verb taskv1.Verb, agent string) {
	e.mu.Lock()
	seen := e.done[taskID]
	e.done[taskID] = true
	paused := e.paused
	e.mu.Unlock()
	if seen || paused || taskID == "" {
		return
	}
	state := taskv1.State_STATE_SUCCEEDED
	if e.outcome != nil {
		state = e.outcome(verb, agent)
	}
	e.w.report(server, taskID, taskv1.State_STATE_RUNNING, nil)
	if state != taskv1.State_STATE_UNSPECIFIED {
		e.w.report(server, taskID, state, &taskv1.Outcome{})
	}
}

// sayAll records many facts in few units.
func (w *world) sayAll(facts []ledger.Draft) {
	w.t.Helper()
	for len(facts) > 0 {
		n := min(len(facts), topology.MaxBatch)
		if _, err := w.writer.Append(context.Background(), facts[:n]...); err != nil {
			w.t.Fatal(err)
		}
		facts = facts[n:]
	}
}

// awaitSettled waits until each server has a number of entries, all of one generation, and no task is
// under way.
func (w *world) awaitSettled(d *Dispatcher, generation uint64, servers []string, entries int) {
	w.t.Helper()
	polltest.Eventually(w.t, "every entry is of the last generation", func() bool {
		settled := true
		d.follower.Read(func() {
			for n := 0; n < len(servers) && settled; n++ {
				doc, _ := d.view.Rows.Document(servers[n])
				settled = d.view.Queue.UnderWay() == 0 && len(doc.GetEntries()) == entries
				for _, e := range doc.GetEntries() {
					settled = settled && e.Generation == generation && e.TaskId == ""
				}
			}
		})
		return settled
	})
}
