package operator

import (
	"maps"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
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
	if r.GetIntent().GetDecommission() != nil { // of a server that is dead already
		return nil
	}
	name := agentOf(r.GetIntent())
	one := func(server string, state taskv1.State, o *taskv1.Outcome) *taskv1.Task {
		return &taskv1.Task{
			Id: ident.From(name, server), Verb: taskv1.Verb_VERB_UPGRADE, ServerId: server, Agent: name, Generation: 2, Attempt: 1, IntentId: r.GetId(),
			From: &imagev1.Ref{Version: "1.0.0"}, To: &imagev1.Ref{Version: "2.0.0"}, State: state, Outcome: o,
			QueuedAt: ago(3 * time.Second), Since: ago(time.Second), Deadline: timestamppb.New(noon.Add(10 * time.Minute)),
		}
	}
	bad := &taskv1.Outcome{FailedStep: taskv1.Step_STEP_PROVE, Code: "NOT_READY", Reason: "no READY=1 within 30s", LogTail: "panic: no\n\x1b[31mred"}
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
