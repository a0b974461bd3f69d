package simulation

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
	"github.com/garrison-fleet/garrison/pkg/topology"
	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// begin reports that a change began that takes long, and has it finished after its time.
func (e *engine) begin(ctx context.Context, a plan.Action) {
	id := a.TaskID()
	e.update(func(m *memory) {
		e.busy[a.Agent()] = true
		if a.Entry != nil {
			m.try(a.Entry.GetImage().GetVersion())
		}
		if e.fault == Hanging && m.replaces(a) {
			e.hangs[a.Agent()] = nameOf(a)
		}
		if id != "" && (e.lasts(a) >= change.Long || e.hangs[a.Agent()] != "") {
			e.sayTask(m, id, taskv1.State_STATE_RUNNING, nil)
		}
	})
	if id != "" {
		e.progress(&taskv1.Progress{TaskId: id, Step: taskv1.Step_STEP_PROVE})
	}
	e.seen.Begun.Add(1)
	if e.hanging(a.Agent()) {
		return
	}
	time.AfterFunc(e.lasts(a), func() {
		select {
		case e.done <- a:
		case <-ctx.Done():
		}
	})
}

// lasts returns how long a change takes.
func (e *engine) lasts(a plan.Action) time.Duration {
	what := fmt.Sprint(e.name, " ", a.Agent(), " ", a.Entry.GetGeneration())
	return e.fault.lasts(e.settings.Duration, e.settings.Seed, what)
}

// finish ends a change and reports what is on the server after it, with its end where that shows it.
func (e *engine) finish(a plan.Action) {
	e.update(func(m *memory) {
		delete(e.busy, a.Agent())
		state, outcome := e.outcome(a)
		if state == taskv1.State_STATE_SUCCEEDED && e.fault != Misleading {
			apply(m, a)
		}
		if a.Entry == nil || a.TaskID() == "" || e.fault == Misleading || state != taskv1.State_STATE_SUCCEEDED {
			e.sayAgents(m, "")
		} else {
			outcome.Shown = &taskv1.Shown{ConfigurationDigest: m.Agents[a.Agent()].Configuration}
			if e.owed == nil {
				e.owed = time.After(change.ListAfter)
			}
		}
		if a.Removal != nil && state == taskv1.State_STATE_SUCCEEDED {
			e.sayReceipt(m, a.Removal)
		}
		if id := a.TaskID(); id != "" {
			e.end(m, id, state, outcome)
		}
	})
}

// outcome returns how a change ends.
func (e *engine) outcome(a plan.Action) (taskv1.State, *taskv1.Outcome) {
	o := &taskv1.Outcome{}
	if a.Entry.GetAdoptCandidate() != "" {
		o.FailedStep, o.Code = taskv1.Step_STEP_CHECK, code.ExecutorTooOld
		o.Reason = "a simulated server has no candidates to adopt"
		return taskv1.State_STATE_UNDONE, o
	}
	if e.fault != Failing && !e.fails(a) {
		o.Steps = []*taskv1.StepTime{{Step: taskv1.Step_STEP_PROVE, Took: durationpb.New(e.lasts(a))}}
		return taskv1.State_STATE_SUCCEEDED, o
	}
	o.Code, o.Reason = code.NotReady, "a simulated failure"
	if a.Removal != nil {
		o.FailedStep = taskv1.Step_STEP_SWITCH
		return taskv1.State_STATE_FAILED, o
	}
	o.FailedStep = taskv1.Step_STEP_PROVE
	return taskv1.State_STATE_UNDONE, o
}

// apply changes what is on the server.
func apply(m *memory, a plan.Action) {
	if a.Removal != nil {
		if m.Agents[a.Agent()].InstanceID == a.Removal.GetInstanceId() {
			delete(m.Agents, a.Agent())
		}
		return
	}
	image := a.Entry.GetImage()
	m.Agents[a.Agent()] = installed{
		InstanceID: a.Entry.GetInstanceId(), ImageID: image.GetId(), Version: image.GetVersion(),
		Digest: image.GetBlob().GetDigest(), Configuration: a.Entry.GetConfigurationDigest(),
		Generation: a.Entry.GetGeneration(),
	}
}

// answer reports again how tasks ended that the document still shows, unless the report waits, and answers requests.
func (e *engine) answer(d *desiredv1.Document) {
	e.update(func(m *memory) {
		inOutbox := map[string]bool{}
		for _, w := range m.Outbox {
			inOutbox[w.TaskID] = true
		}
		for _, id := range plan.TaskIDs(d) {
			was, ok := m.endOf(id)
			if !ok || inOutbox[id] {
				continue
			}
			o := &taskv1.Outcome{}
			if proto.Unmarshal(was.Outcome, o) == nil {
				o.Shown = nil // it may be otherwise by now
				e.sayTask(m, id, was.State, o)
			}
		}
		for _, q := range d.GetRequests() {
			if _, ok := m.endOf(q.GetTaskId()); !ok && q.GetTaskId() != "" {
				e.refresh(m, q)
			}
		}
	})
}

// refresh answers a request for sysinfo and agents. Scans are not simulated.
func (e *engine) refresh(m *memory, q *desiredv1.Request) {
	id := q.GetTaskId()
	e.seen.Begun.Add(1)
	if q.GetScan() != nil {
		o := &taskv1.Outcome{
			FailedStep: taskv1.Step_STEP_CHECK, Code: code.ExecutorTooOld,
			Reason: "a simulated server cannot be scanned",
		}
		e.end(m, id, taskv1.State_STATE_FAILED, o)
		return
	}
	r := e.report()
	r.Body = &reportv1.Report_Sysinfo{Sysinfo: &reportv1.SysinfoReport{Sysinfo: e.machine, TaskId: id}}
	m.say(r, topology.ReportSysinfo, "")
	e.sayAgents(m, id)
	e.end(m, id, taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{})
}

// end keeps and reports how a task ended.
func (e *engine) end(m *memory, id string, s taskv1.State, o *taskv1.Outcome) {
	m.end(id, s, o)
	e.seen.ended(s)
	e.sayTask(m, id, s, o)
}

func (e *engine) sayTask(m *memory, id string, s taskv1.State, o *taskv1.Outcome) {
	r := e.report()
	r.Body = &reportv1.Report_Task{Task: &reportv1.TaskReport{TaskId: id, State: s, Outcome: o}}
	ends := id
	if s == taskv1.State_STATE_RUNNING {
		ends = ""
	}
	m.say(r, topology.ReportTask, ends)
}

func (e *engine) sayReceipt(m *memory, removal *desiredv1.Removal) {
	r := e.report()
	r.Body = &reportv1.Report_Receipt{Receipt: &reportv1.ReceiptReport{
		TaskId: removal.GetTaskId(), InstanceId: removal.GetInstanceId(), Agent: removal.GetAgent(),
	}}
	m.say(r, topology.ReportReceipt, "")
}

// leavesOpen reports whether a server with the fault may leave a task open until its deadline.
func (f Fault) leavesOpen() bool { return f == Silent || f == Hanging || f == Vanishing }

// fails reports whether a change is rolled back because its version does not work here.
func (e *engine) fails(a plan.Action) bool {
	return a.Entry != nil && e.settings.Bad.hits(e.settings.Seed, e.name, a.Entry.GetImage().GetVersion())
}

// replaces reports whether an action changes the image of an agent that is there.
func (m *memory) replaces(a plan.Action) bool {
	have, ok := m.Agents[a.Agent()]
	return ok && a.Entry != nil && have.ImageID != a.Entry.GetImage().GetId()
}

// nameOf names a change.
func nameOf(a plan.Action) string { return a.Agent() + " " + a.TaskID() }

// hanging reports whether the change of an agent under way never ends by itself.
func (e *engine) hanging(agent string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.hangs[agent] != ""
}

// unhang forgets the hanging changes that a document no longer asks for.
func (e *engine) unhang(d *desiredv1.Document) {
	e.mu.Lock()
	defer e.mu.Unlock()
	asked := map[string]bool{}
	for _, entry := range d.GetEntries() {
		asked[nameOf(plan.Action{Entry: entry})] = true
	}
	for agent, change := range e.hangs {
		if !asked[change] {
			delete(e.hangs, agent)
			delete(e.busy, agent)
		}
	}
}

// gone reports whether a vanishing server has nothing left to say. The caller holds mu.
func (e *engine) gone() bool {
	return e.fault == Vanishing && len(e.memory.Agents) > 0 && len(e.memory.Outbox) == 0 && len(e.busy) == 0
}

// vanished reports whether the server went away forever.
func (e *engine) vanished() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gone()
}

// vanish waits until the server goes away.
func (e *engine) vanish(ctx context.Context) error {
	select {
	case <-e.left.C():
		e.seen.Vanished.Add(1)
		return rungroup.ErrDone
	case <-ctx.Done():
		return ctx.Err()
	}
}
