package rolling_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

func TestARegistryThatBeganWaitsOnlyForTheReportsThatItMayNotHave(t *testing.T) {
	v, last, web := view.New(), uint64(0), &imagev1.Ref{Id: "web2"}
	fold := func(noun ledger.Noun, key string, body proto.Message) {
		t.Helper()
		last++
		f := ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(last), 0), Sequence: last}
		if !v.Apply(f) {
			t.Fatalf("%T of %s does not fit", body, key)
		}
	}
	plan := &rolloutv1.Planned{Waves: []uint32{2}, Part: 1, Parts: 1, Strategy: &rolloutv1.Strategy{}}
	for _, id := range []string{"away", "unseen"} {
		fold(ledger.Server, id, &serverv1.Invited{Name: id, Cell: "main"})
		fold(ledger.Server, id, &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{}})
		fold(ledger.Server, id, &serverv1.Online{})
		plan.Targets = append(plan.Targets, &rolloutv1.Target{
			ServerId: id, Wave: 1, Changes: []*rolloutv1.Change{{Agent: "web", To: web}},
		})
	}
	fold(ledger.Rollout, "r", plan)
	fold(ledger.Rollout, "r", &rolloutv1.Opened{Wave: 1})
	fold(ledger.Rollout, "r", &rolloutv1.Released{Wave: 1, ServerIds: []string{"away", "unseen"}})
	for _, id := range []string{"away", "unseen"} {
		fold(ledger.Instance, id+".web", &instancev1.Wanted{InstanceId: id, Generation: 7, Image: web, IntentId: id})
		fold(ledger.Intent, id, &intentv1.Accepted{Changed: 1, ServerIds: []string{id}, Intent: &intentv1.Intent{
			Source: &intentv1.Source{RolloutId: "r", Wave: 1},
			Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
				Agent: "web", On: &intentv1.Selector{Servers: []string{id}},
			}},
		}})
		fold(ledger.Task, "t"+id, &taskv1.Queued{
			ServerId: id, Agent: "web", InstanceId: id, Generation: 7, Attempt: 1, To: web, IntentId: id,
		})
	}
	fold(ledger.Server, "away", &serverv1.Offline{})
	for _, body := range []proto.Message{&taskv1.Assigned{}, &taskv1.Started{}, &taskv1.Succeeded{}} {
		fold(ledger.Task, "tunseen", body) // its agent was not observed after the change
	}
	r, _ := v.Rollout("r")
	silent := func(unseenUntil time.Time) (out []string) {
		b := &rolloutv1.Basis{At: timestamppb.New(time.Unix(1000, 0))}
		if !unseenUntil.IsZero() {
			b.UnseenUntil = timestamppb.New(unseenUntil)
		}
		for id := range rolling.Input(v, r, b).Silent() {
			out = append(out, id)
		}
		return out
	}
	if have := silent(time.Time{}); len(have) != 2 {
		t.Errorf("silent are %v; want both", have)
	}
	if have := silent(time.Unix(1000, 0)); len(have) != 2 {
		t.Errorf("once the time has passed, silent are %v; want both", have)
	}
	if have := silent(time.Unix(1001, 0)); len(have) != 1 || have[0] != "away" {
		t.Errorf("before that, silent are %v; want the one that is offline", have)
	}
}
