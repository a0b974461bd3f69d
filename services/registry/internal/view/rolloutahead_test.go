package view_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestWhatAnAbortedRolloutFetchesAheadCountsForNoOther(t *testing.T) {
	r := released("web")
	ahead := &imagev1.Ahead{Image: &imagev1.Ref{Id: "web2"}}
	ask := func(rollout string) {
		r.fold(ledger.Intent, "i"+rollout, &intentv1.Accepted{
			Intent: &intentv1.Intent{
				Source: &intentv1.Source{RolloutId: rollout},
				Ask:    &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{Ahead: ahead}},
			},
			ServerIds: []string{"s"}, Changed: 1,
		})
		r.fold(ledger.Rollout, rollout, &rolloutv1.Primed{ServerIds: []string{"s"}})
		r.fold(ledger.Task, "t"+rollout, &taskv1.Queued{
			Verb: taskv1.Verb_VERB_REFRESH, ServerId: "s", IntentId: "i" + rollout, Generation: r.last, Ahead: ahead,
		})
	}
	ends := func(task string, end proto.Message) {
		r.fold(ledger.Task, task, &taskv1.Assigned{})
		r.fold(ledger.Task, task, end)
	}
	ask("r")
	r.fold(ledger.Rollout, "r", &rolloutv1.Aborted{})
	r.fold(ledger.Rollout, "next", &rolloutv1.Planned{
		Waves: []uint32{1}, Part: 1, Parts: 1, Strategy: &rolloutv1.Strategy{}, Targets: []*rolloutv1.Target{{
			ServerId: "s", Wave: 1, State: rolloutv1.TargetState_TARGET_STATE_PENDING,
			Changes: []*rolloutv1.Change{{Agent: "web", To: ahead.Image}},
		}},
	})
	ask("next")
	ends("tr", &taskv1.Failed{Outcome: &taskv1.Outcome{Code: "NO_SPACE"}})
	if next, _ := r.Rollout("next"); next.GetPrimed() != 1 || next.GetNotFetchedAhead() != 0 {
		t.Errorf("after the other rollout's task it is %v", next)
	}
	ends("tnext", &taskv1.Succeeded{})
	if next, _ := r.Rollout("next"); next.GetFetchedAhead() != 1 {
		t.Errorf("after its own task it is %v", next)
	}
}

// One that is quarantined while it is online must not hold a place among those that fetch ahead until its deadline.
func TestAServerThatIsShutOutHoldsNoPlaceAmongThoseThatFetchAhead(t *testing.T) {
	for name, out := range map[string]proto.Message{
		"quarantined": &serverv1.Quarantined{}, "revoked": &serverv1.Revoked{},
	} {
		r := released("web")
		r.fold(ledger.Intent, "i", &intentv1.Accepted{
			Intent: &intentv1.Intent{
				Source: &intentv1.Source{RolloutId: "r"},
				Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{
					Ahead: &imagev1.Ahead{Image: &imagev1.Ref{Id: "web2"}},
				}},
			},
			ServerIds: []string{"s"}, Changed: 1,
		})
		r.fold(ledger.Rollout, "r", &rolloutv1.Primed{ServerIds: []string{"s"}})
		r.fold(ledger.Server, "s", out)
		if have, _ := r.Rollout("r"); have.GetPrimed() != 1 || have.GetNotFetchedAhead() != 1 {
			t.Errorf("%s: %d asked, %d not fetched; want one of each", name, have.GetPrimed(),
				have.GetNotFetchedAhead())
		}
	}
}
