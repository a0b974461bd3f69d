package view

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/duty"
	"github.com/garrison-fleet/garrison/services/registry/internal/inventory"
)

// history is one server's life with one agent, fact by fact: the registry's real view, a
// dispatcher that opens and admits as the real one does, and an executor that changes,
// undoes, loses its process and restarts. Lists and the ends of tasks travel apart, late and
// twice, and a message that the bus acknowledged may be lost and sent again.
type history struct {
	t        *rapid.T
	view     *View
	sequence uint64
	minted   int

	open    []*changing // tasks that wait or are under way, the oldest first
	placed  *imagev1.Ref
	before  *imagev1.Ref
	machine machine
	outbox  []*reportv1.Report // not yet published
	stored  []*reportv1.Report // lists that the bus has
	seen    int                // how many of them were handled
	newest  [2]uint64          // by replica: the last list that it handled
	ends    []*reportv1.Report // ends of tasks that are not recorded yet
}

// changing is a task under way.
type changing struct {
	id         string
	generation uint64
	instance   string
	to         *imagev1.Ref
	digest     []byte
	underWay   bool
}

const (
	theServer = "s1"
	theAgent  = "web"
	theKey    = theServer + "." + theAgent
)

func newHistory(t *rapid.T) *history {
	h := &history{t: t, view: New()}
	h.tell(ledger.Server, theServer, &serverv1.Invited{Name: "one", Cell: "main"})
	h.tell(ledger.Server, theServer, &serverv1.Enrolled{})
	h.tell(ledger.Server, theServer, &serverv1.Online{})
	return h
}

func (h *history) tell(noun ledger.Noun, key string, body proto.Message) {
	h.sequence++
	at := time.Unix(int64(h.sequence), 0)
	f := ledger.Fact{Noun: noun, Key: key, Body: proto.Clone(body), At: at, Sequence: h.sequence}
	if !h.view.Apply(f) {
		h.t.Fatalf("fact %d does not fit: %s %v", h.sequence, f.Name(), body)
	}
}

func (h *history) draw(what string, most int) int { return rapid.IntRange(0, most).Draw(h.t, what) }

func (h *history) instance() *instancev1.Instance {
	i, _ := h.view.Instance(theServer, theAgent)
	return i
}

// step takes one random step.
func (h *history) step() {
	switch h.draw("step", 11) {
	case 0, 1:
		h.want()
	case 2:
		h.cancel()
	case 3, 4:
		h.dispatch()
	case 5, 6:
		h.execute()
	case 7:
		h.disturb()
	case 8:
		h.publish()
	case 9:
		h.handleList(h.draw("replica", 1), h.draw("redelivered", 3) == 0)
	case 10:
		h.recordEnd()
	case 11:
		h.duties()
	}
}

// want is an install, an upgrade, a configure, a retry, or a removal.
func (h *history) want() {
	i := h.instance()
	if i != nil && h.draw("removal", 5) == 0 {
		if i.Wanted != nil || i.State == instancev1.State_STATE_FAILED {
			h.tell(ledger.Instance, theKey, &instancev1.Unwanted{InstanceId: i.Id, Generation: i.Generation + 1})
		}
		return
	}
	id := i.GetId()
	if i == nil {
		h.minted++
		id = fmt.Sprint("instance ", h.minted)
	}
	w := &instancev1.Wanted{InstanceId: id, Generation: i.GetGeneration() + 1, Image: imageNumber(h.draw("image", 3))}
	if d := h.draw("configuration", 2); d > 0 {
		w.Configuration = &instancev1.Configuration{Digest: []byte{byte(d)}}
	}
	h.tell(ledger.Instance, theKey, w)
}

// dispatch opens what is due, ends what is outdated, and admits the next.
func (h *history) dispatch() {
	i := h.instance()
	opened := slices.ContainsFunc(h.open, func(c *changing) bool { return c.generation == i.GetGeneration() })
	if i != nil && !opened && i.TaskId == "" {
		c := &changing{
			id: fmt.Sprint("task ", h.sequence), instance: i.Id, generation: i.Generation,
			to: i.Wanted, digest: i.Configuration.GetDigest(),
		}
		h.open = append(h.open, c)
		h.tell(ledger.Task, c.id, &taskv1.Queued{
			ServerId: theServer, Agent: theAgent, InstanceId: i.Id, Generation: i.Generation, From: h.placed, To: c.to,
		})
	}
	for len(h.open) > 1 && !h.open[0].underWay {
		h.tell(ledger.Task, h.open[0].id, &taskv1.Superseded{})
		h.open = h.open[1:]
	}
	if len(h.open) == 0 || h.open[0].underWay {
		return
	}
	c := h.open[0]
	c.underWay, h.before, h.placed = true, h.placed, c.to
	h.tell(ledger.Task, c.id, &taskv1.Assigned{})
}

func (h *history) cancel() {
	if n := len(h.open); n > 0 && !h.open[n-1].underWay {
		h.tell(ledger.Task, h.open[n-1].id, &taskv1.Cancelled{})
		h.open = h.open[:n-1]
	}
}

// execute begins the change in the document, or advances it by one step.
func (h *history) execute() {
	m := &h.machine
	switch c := m.change; {
	case c == nil && len(h.open) > 0 && h.open[0].underWay && !h.ended(h.open[0]):
		m.change = h.open[0]
	case c == nil:
	case !m.stopped:
		m.stopped = true
		h.list(false)
	case c.to == nil:
		h.end(&taskv1.Succeeded{}, machine{})
	case works(c.to):
		h.end(&taskv1.Succeeded{},
			machine{instance: c.instance, image: c.to, digest: c.digest, generation: c.generation})
	default:
		h.end(&taskv1.Undone{}, m.asBefore())
	}
}

func (h *history) ended(c *changing) bool {
	said := append(slices.Clone(h.outbox), h.ends...)
	return slices.ContainsFunc(said, func(r *reportv1.Report) bool { return r.GetTask().GetTaskId() == c.id })
}

// end reports in one step the agents and how the task ended.
func (h *history) end(how proto.Message, now machine) {
	task := &reportv1.TaskReport{TaskId: h.machine.change.id, State: taskv1.State_STATE_SUCCEEDED}
	if _, undone := how.(*taskv1.Undone); undone {
		task.State = taskv1.State_STATE_UNDONE
	}
	now.reports, now.last = h.machine.reports, h.machine.last
	h.machine = now
	h.list(true)
	h.say(&reportv1.Report{Body: &reportv1.Report_Task{Task: task}})
}

// disturb changes the machine, or restarts the executor.
func (h *history) disturb() {
	m := &h.machine
	switch h.draw("disturbance", 4) {
	case 0:
		m.reason = "its files were changed"
	case 1:
		m.reason = ""
	case 2:
		if m.change == nil {
			m.image, m.digest, m.reason = imageNumber(8), nil, "" // an operator moved the link
		}
	case 3: // the executor restarts and rolls back a change that had begun
		if m.change != nil && m.stopped {
			h.end(&taskv1.Undone{}, m.asBefore())
		}
		h.list(true)
		return
	case 4: // the bus was killed: the executor repeats the reports that may be lost
		if n := len(h.stored); n > 0 {
			h.stored = append(h.stored, h.stored[n-1])
		}
	}
	h.list(false)
}

// list reports the agents when they differ from the last report, or always.
func (h *history) list(always bool) {
	m, list := &h.machine, &reportv1.AgentsReport{}
	if m.image != nil {
		f := &reportv1.Found{
			Agent: theAgent, InstanceId: m.instance, Generation: m.generation, Image: m.image,
			ConfigurationDigest: m.digest,
		}
		f.Health, f.Reason = instancev1.Health_HEALTH_GOOD, ""
		if m.stopped || m.reason != "" {
			f.Health, f.Reason = instancev1.Health_HEALTH_BAD, "it does not run "+m.reason
		}
		list.Agents = append(list.Agents, f)
	}
	if !always && proto.Equal(list, m.last) {
		return
	}
	m.last = proto.CloneOf(list)
	// The newer list holds everything.
	h.outbox = slices.DeleteFunc(h.outbox, func(r *reportv1.Report) bool { return r.GetAgents() != nil })
	h.say(&reportv1.Report{Body: &reportv1.Report_Agents{Agents: list}})
}

func (h *history) say(r *reportv1.Report) {
	h.machine.reports++
	r.ServerId, r.Sequence = theServer, h.machine.reports
	h.outbox = append(h.outbox, r)
}

// publish publishes the oldest report in the outbox.
func (h *history) publish() {
	if len(h.outbox) == 0 {
		return
	}
	r := h.outbox[0]
	if h.outbox = h.outbox[1:]; r.GetAgents() != nil {
		h.stored = append(h.stored, r)
	} else {
		h.ends = append(h.ends, r)
	}
}

// handleList lets a replica handle the next list, or an earlier one again; and when that
// recorded something, the last one that there is.
func (h *history) handleList(replica int, again bool) {
	n := h.seen
	if again && n > 0 {
		n = h.draw("which", n-1)
	} else if n == len(h.stored) {
		return
	} else {
		h.seen++
	}
	if h.handle(replica, h.stored[n]) {
		h.handle(replica, h.stored[len(h.stored)-1])
	}
}

func (h *history) handle(replica int, r *reportv1.Report) (recorded bool) {
	if r.Sequence < h.newest[replica] {
		return false
	}
	h.newest[replica] = r.Sequence
	for _, d := range inventory.Differences(h.view.InstancesOf(theServer), r.GetAgents()) {
		h.tell(ledger.Instance, theKey, d.Observed)
		recorded = true
	}
	return recorded
}

// recordEnd records how the task under way ended.
func (h *history) recordEnd() {
	if len(h.ends) == 0 {
		return
	}
	said := h.ends[0].GetTask()
	h.ends = h.ends[1:]
	h.open = slices.DeleteFunc(h.open, func(c *changing) bool { return c.id == said.TaskId })
	if said.State == taskv1.State_STATE_SUCCEEDED {
		h.tell(ledger.Task, said.TaskId, &taskv1.Succeeded{})
		return
	}
	h.placed = h.before
	h.tell(ledger.Task, said.TaskId, &taskv1.Undone{})
}

func (h *history) duties() {
	s, _ := h.view.Server(theServer)
	for _, u := range duty.Units(s, h.view.InstancesOf(theServer), time.Now()) {
		for _, c := range u {
			h.tell(ledger.Instance, theKey, c.Body)
			h.open = nil
		}
	}
}

// settle finishes everything that is under way.
func (h *history) settle() {
	for range 200 {
		h.dispatch()
		h.execute()
		h.publish()
		h.recordEnd()
		h.handleList(0, false)
		h.duties()
	}
}

// wrong returns how the view differs from the machine.
func (h *history) wrong() string {
	i, m := h.instance(), h.machine
	if i == nil {
		return ""
	}
	health := instancev1.Health_HEALTH_GOOD
	switch never := i.Health == instancev1.Health_HEALTH_UNSPECIFIED; {
	case m.image == nil && never:
		health = i.Health
	case m.image == nil:
		health = instancev1.Health_HEALTH_ABSENT
	case m.reason != "":
		health = instancev1.Health_HEALTH_BAD
	}
	configured := string(i.ObservedConfigurationDigest) == string(m.digest)
	if !proto.Equal(i.Observed, m.image) || i.Health != health || !configured {
		return fmt.Sprintf("observed %v %v with configuration %x; there is %v %v with %x",
			i.Observed, i.Health, i.ObservedConfigurationDigest, m.image, health, m.digest)
	}
	good := proto.Equal(i.Wanted, m.image) && m.reason == "" && string(i.Configuration.GetDigest()) == string(m.digest)
	switch s := i.State; {
	case i.Wanted == nil:
	case good != (s == instancev1.State_STATE_CONVERGED):
		return fmt.Sprintf("state %v; what is wanted is there and good: %v", s, good)
	case s == instancev1.State_STATE_PENDING:
		return "it is pending although everything came to its end"
	}
	return ""
}

// TestTheInventoryFollowsTheServersListsHoweverTasksEnd: after any history of overlapping
// changes, undos, removals, cancels, restarts, late and repeated reports, the registry says
// what is there.
func TestTheInventoryFollowsTheServersListsHoweverTasksEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			h.step()
			if i := h.instance(); i.GetState() == instancev1.State_STATE_CONVERGED &&
				!proto.Equal(i.Wanted, i.Observed) {
				t.Fatalf("converged, and no list says so: %v", i)
			}
		}
		h.settle()
		if wrong := h.wrong(); wrong != "" {
			t.Fatal(wrong)
		}
	})
}
