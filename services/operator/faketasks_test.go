package operator

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// changes answers what a server's labels become, and keeps nothing of it.
func (f *fakes) changes(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ChangeServer", func(q *registryv1.ChangeServerRequest) (*registryv1.ChangeServerResponse, error) {
		now := servers()[0]
		for _, label := range q.GetUnsetLabels() {
			delete(now.Labels, label)
		}
		maps.Copy(now.Labels, q.GetSetLabels())
		if q.Environment != nil {
			now.Environment = q.GetEnvironment()
		}
		return &registryv1.ChangeServerResponse{Server: now}, nil
	})
}

func tasksOf(r *intentv1.Record) []*taskv1.Task {
	if r.GetIntent().GetDecommission() != nil || r.GetIntent().GetReinstall() != nil { // of servers without an agent
		return nil
	}
	name := agentOf(r.GetIntent())
	one := func(server string, state taskv1.State, o *taskv1.Outcome) *taskv1.Task {
		return &taskv1.Task{
			Id: ident.From(name, server), Verb: taskv1.Verb_VERB_UPGRADE, ServerId: server, Agent: name,
			Generation: 2, Attempt: 1, IntentId: r.GetId(),
			From: &imagev1.Ref{Version: "1.0.0"}, To: &imagev1.Ref{Version: "2.0.0"}, State: state, Outcome: o,
			QueuedAt: ago(
				3 * time.Second), Since: ago(time.Second), Deadline: timestamppb.New(noon.Add(10 * time.Minute)),
		}
	}
	bad := &taskv1.Outcome{
		FailedStep: taskv1.Step_STEP_PROVE,
		Code:       "NOT_READY",
		Reason:     "no READY=1 within 30s",
		LogTail:    "garrison:sealed:1:panic: no\n\x1b[31mred",
	}
	if r.GetIntent().GetConfigure() != nil {
		return configures(one(web1, taskv1.State_STATE_SUCCEEDED, nil), one(web2, taskv1.State_STATE_SUCCEEDED, nil))
	}
	first, second := one(web1, taskv1.State_STATE_SUCCEEDED, nil), one(web2, taskv1.State_STATE_SUCCEEDED, nil)
	switch name {
	case "flaky":
		second = one(web2, taskv1.State_STATE_UNDONE, bad)
	case "broken":
		first, second = one(web1, taskv1.State_STATE_FAILED, bad), one(web2, taskv1.State_STATE_FAILED, bad)
	case "slow":
		second = one(web2, taskv1.State_STATE_RUNNING, nil)
		second.Live = &taskv1.Live{
			Step: taskv1.Step_STEP_FETCH, Since: ago(40 * time.Second), DoneBytes: 4, TotalBytes: 10,
			Usual: durationpb.New(10 * time.Second), Slow: true,
		}
	case "huge":
		second = one(web2, taskv1.State_STATE_UNDONE, bad)
	}
	return []*taskv1.Task{first, second}
}

// configures makes tasks of a configuration: on the second server it brings a version too when that was undone before.
func configures(first, second *taskv1.Task) []*taskv1.Task {
	for _, t := range []*taskv1.Task{first, second} {
		t.Verb, t.To = taskv1.Verb_VERB_CONFIGURE, t.From
	}
	if second.Agent == "flaky" {
		second.Verb, second.To = taskv1.Verb_VERB_UPGRADE, &imagev1.Ref{Version: "2.0.0"}
	}
	return []*taskv1.Task{first, second}
}

// progressOf counts the tasks of an intent.
func progressOf(r *intentv1.Record) *dispatcherv1.IntentProgress {
	p := &dispatcherv1.IntentProgress{Counts: &dispatcherv1.IntentCounts{}, Ended: true, Tasks: tasksOf(r)}
	if agentOf(r.GetIntent()) == "waiting" { // of ten changes, seven wait until the intent is withdrawn
		p.Counts, p.Tasks, p.Ended = &dispatcherv1.IntentCounts{
			ToOpen:    3,
			Queued:    4,
			Running:   2,
			Succeeded: 1,
		}, nil, false
		if p.Withdrawn = r.GetWithdrawnAt() != nil; p.Withdrawn {
			p.Counts = &dispatcherv1.IntentCounts{Cancelled: 7, Running: 2, Succeeded: 1}
		}
		return p
	}
	if agentOf(r.GetIntent()) == "parked" { // both servers are offline, and their tasks wait for them
		p.Counts, p.Tasks, p.Ended = &dispatcherv1.IntentCounts{Assigned: 2}, nil, false
		return p
	}
	if agentOf(r.GetIntent()) == "huge" { // 12,000 changes, few of which have a task that is kept
		p.Counts = &dispatcherv1.IntentCounts{Succeeded: 11990, Undone: 7, NeverOpened: 3}
		p.Tasks, p.Failures = nil, p.Tasks[1:]
		return p
	}
	for _, t := range p.Tasks {
		switch t.State {
		case taskv1.State_STATE_SUCCEEDED:
			p.Counts.Succeeded++
		case taskv1.State_STATE_UNDONE:
			p.Counts.Undone++
		case taskv1.State_STATE_FAILED:
			p.Counts.Failed++
		case taskv1.State_STATE_RUNNING:
			p.Counts.Running++
			p.UnderWay, p.Slow, p.Ended = append(p.UnderWay, t), 1, false
		}
	}
	return p
}

// intentCalls lists and withdraws intents.
func (f *fakes) intentCalls(t testing.TB, s *bus.Service) {
	handle(t, f, s, "ListIntents", func(q *registryv1.ListIntentsRequest) (*registryv1.ListIntentsResponse, error) {
		r := &registryv1.ListIntentsResponse{}
		for _, i := range f.intents {
			// A test also lists by what it asked for.
			a := q.GetActor()
			if (a == "" || a == i.GetActor() || a == agentOf(i.GetIntent())) && (q.State == 0 || q.State == i.State) {
				r.Intents = append(r.Intents, i)
			}
		}
		slices.SortFunc(r.Intents, func(a, b *intentv1.Record) int { return strings.Compare(b.Id, a.Id) })
		r.Kept = 10_000
		return r, nil
	})
	handle(
		t,
		f,
		s,
		"WithdrawIntent",
		func(q *registryv1.WithdrawIntentRequest) (*registryv1.WithdrawIntentResponse, error) {
			r := f.intents[q.GetIntentId()]
			r.State, r.WithdrawnAt, r.WithdrawnBy, r.WithdrawnReason = intentv1.State_STATE_WITHDRAWN, ago(
				0), "ann", q.GetReason()
			return &registryv1.WithdrawIntentResponse{Intent: r}, nil
		},
	)
}

func (f *fakes) dispatcher(t testing.TB, c *bus.Conn) {
	s := service(t, f, c, client.Services[ledger.Dispatcher], "v1.1.0")
	f.dryDispatcher(t, s)
	f.countTasks(t, s)
	handle(t, f, s, "ListTasks", func(q *dispatcherv1.ListTasksRequest) (*dispatcherv1.ListTasksResponse, error) {
		r := f.intents[q.GetIntentId()]
		if q.GetAgent() == "slow" {
			slow := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "slow"}}}
			return &dispatcherv1.ListTasksResponse{
				Tasks:     tasksOf(&intentv1.Record{Intent: slow})[1:],
				KeptEnded: 10_000,
			}, nil
		}
		if q.GetServerId() == web2 { // what flaky left there
			flaky := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "flaky"}}}
			return &dispatcherv1.ListTasksResponse{Tasks: tasksOf(&intentv1.Record{Intent: flaky})[1:]}, nil
		}
		if r == nil {
			return &dispatcherv1.ListTasksResponse{}, nil
		}
		return &dispatcherv1.ListTasksResponse{Tasks: tasksOf(r)}, nil
	})
	handle(
		t,
		f,
		s,
		"GetIntentProgress",
		func(q *dispatcherv1.GetIntentProgressRequest) (*dispatcherv1.GetIntentProgressResponse, error) {
			all := &dispatcherv1.GetIntentProgressResponse{}
			for _, id := range q.GetIntentIds() {
				p := &dispatcherv1.IntentProgress{
					Refusal: fault.RefusalOf(unknown("NOT_COUNTED", "intent", id, "")),
				}
				if r := f.intents[id]; r != nil && agentOf(r.GetIntent()) != "gone" {
					p = progressOf(r)
				}
				all.Intents = append(all.Intents, p)
			}
			return all, nil
		},
	)
	handle(t, f, s, "OpenOutputs", func(q *dispatcherv1.OpenOutputsRequest) (*dispatcherv1.OpenOutputsResponse, error) {
		if f.viewer {
			return nil, fault.Refusef(fault.Denied, code.Denied, "no output for viewers")
		}
		r := &dispatcherv1.OpenOutputsResponse{}
		for _, one := range q.GetSealed() {
			r.Outputs = append(r.Outputs, strings.TrimPrefix(one.GetSealed(), "garrison:sealed:1:"))
		}
		return r, nil
	})
	handle(t, f, s, "GetTask", func(q *dispatcherv1.GetTaskRequest) (*dispatcherv1.GetTaskResponse, error) {
		for _, r := range f.intents {
			for _, task := range tasksOf(r) {
				if strings.HasPrefix(task.GetId(), q.GetTask()) {
					return &dispatcherv1.GetTaskResponse{Task: task}, nil
				}
			}
		}
		return nil, unknown("NOT_FOUND", "task", q.GetTask(), "")
	})
}

func (f *fakes) hear(m bus.Message) {
	address, err := topology.ParseIntentSubject(m.Subject)
	i := &intentv1.Intent{}
	if err != nil || bus.Unmarshal(m, i) != nil {
		return
	}
	r := &intentv1.Record{
		Id:        address.ID,
		Actor:     address.Actor,
		Intent:    i,
		State:     intentv1.State_STATE_ACCEPTED,
		DecidedAt: ago(0),
		ServerIds: []string{web1, web2},
		Changed:   2,
	}
	switch agentOf(i) {
	case "ghost":
		r = &intentv1.Record{
			Id:     address.ID,
			Actor:  address.Actor,
			Intent: i,
			State:  intentv1.State_STATE_REFUSED,
			Refusal: &apiv1.Refusal{
				Code: "NO_MATCH", Component: ledger.Registry, Try: "garrison image list ghost",
				Message: `no image of agent "ghost" for linux/amd64 in channel release (7 images searched)`,
			},
		}
	case "many":
		r.Changed = 1200 // more than it names
	case "huge":
		r.Changed = 12_000 // more than there are tasks kept
	case "stale":
		f.mu.Lock()
		f.intents["stale"] = r
		f.mu.Unlock()
		r = &intentv1.Record{
			Id:     address.ID,
			Actor:  address.Actor,
			Intent: i,
			State:  intentv1.State_STATE_REFUSED,
			Refusal: &apiv1.Refusal{
				Code: "PLAN_STALE", Component: ledger.Registry, Message: "the plan no longer holds"},
		}
	case "odd":
		r.ServerIds, r.Changed, r.LeftOut = []string{web1}, 1, 1
		r.Reasons = []*intentv1.Reason{{
			Code: "WRONG_PLATFORM", Effect: intentv1.Effect_EFFECT_LEFT_OUT, Count: 1, ServerIds: []string{web2},
			First: &apiv1.Refusal{Code: "WRONG_PLATFORM", Message: "no image for linux/arm64"},
		}}
	case "same":
		r.ServerIds, r.Changed, r.Already = nil, 0, 2
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.intents[address.ID] = r
}

// intent returns an intent by its id or a prefix of it, or nil. It must be called while f is locked.
func (f *fakes) intent(id string) *intentv1.Record {
	if r := f.intents[id]; r != nil {
		return r
	}
	for whole, r := range f.intents {
		if len(id) >= 4 && strings.HasPrefix(whole, id) {
			return r
		}
	}
	return nil
}

func agentOf(i *intentv1.Intent) string {
	return cmp.Or(i.GetInstall().GetAgent(), i.GetUpgrade().GetAgent(), i.GetRemove().GetAgent(),
		i.GetConfigure().GetAgent(), i.GetAdopt().GetAgent(), i.GetRelease().GetAgent())
}
