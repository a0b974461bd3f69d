package registry

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestTheServersOfARolloutAreListedWithWhereTheirChangeIs(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	id := s.accepted(topology.VerbRollout, staged()).Id
	rows := func() []*registryv1.RolloutTarget {
		q := &registryv1.ListRolloutTargetsRequest{RolloutId: id}
		return must[*registryv1.ListRolloutTargetsResponse](s, "ListRolloutTargets", q).Targets
	}
	var row *registryv1.RolloutTarget
	shows := func(step, waits string) {
		t.Helper()
		bustest.Eventually(t, "a server is "+step, func() bool {
			row = rows()[0]
			return row.Step == step && row.WaitsFor == waits
		})
	}
	shows("queued", "")
	if row.Target.State != rolloutv1.TargetState_TARGET_STATE_REACHED || row.Agent != "web" {
		t.Errorf("it is %v", row)
	}
	var i *instancev1.Instance
	s.r.follower.Read(func() {
		have, _ := s.r.records.View.Instance(row.Target.ServerId, "web")
		i = proto.CloneOf(have)
	})
	task := ident.New()
	s.append(fact(ledger.Task, task, &taskv1.Queued{
		Verb: taskv1.Verb_VERB_UPGRADE, ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.Id,
		Generation: i.Generation, Attempt: 1, From: i.Observed, To: i.Wanted, IntentId: i.IntentId,
	}))
	shows("queued", "")
	s.append(fact(ledger.Task, task, &taskv1.Assigned{}))
	shows("assigned", "")
	s.append(fact(ledger.Task, task, &taskv1.Started{}))
	shows("running", "")
	s.append(fact(ledger.Task, task, &taskv1.Deferred{Deferral: &taskv1.Deferral{Reason: "backup"}}))
	shows("deferred", "backup")
	s.append(fact(ledger.Task, task, &taskv1.Resumed{}))
	shows("running", "")
	s.append(fact(ledger.Task, task, &taskv1.Succeeded{}))
	shows("observing", "")
	s.append(worked(i, false)[4])
	shows("", "")
	if row.Target.State != rolloutv1.TargetState_TARGET_STATE_SUCCEEDED {
		t.Errorf("in the end it is %v", row)
	}
}
