package intent_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// A purge leaves out servers that a rollout may take back, that are held, or whose environment is closed.
func TestAPurgeLeavesOutServersThatMayHaveToGoBack(t *testing.T) {
	w := fleet(4)
	rolls, held, closed := ident.From("server", "0"), ident.From("server", "1"), ident.From("server", "2")
	w.apply(ledger.Rollout, "r", &rolloutv1.Planned{
		Waves: []uint32{1}, Part: 1, Parts: 1, Strategy: &rolloutv1.Strategy{}, Title: "a rollout",
		Targets: []*rolloutv1.Target{{ServerId: rolls, Wave: 1, Changes: []*rolloutv1.Change{{Agent: "web"}}}},
	})
	w.apply(ledger.Instance, held+".web", &instancev1.Wanted{
		InstanceId: "i", Generation: 1, Image: &imagev1.Ref{Id: "image"}, IntentId: "x",
	})
	w.apply(ledger.Hold, "h", &holdv1.Hold{
		Agent: "web", On: &intentv1.Selector{Servers: []string{held}}, Reason: "y",
	})
	freeze := &environmentv1.Freeze{Reason: "z", Until: timestamppb.New(time.Unix(1000, 0))}
	w.apply(ledger.Environment, "shut", &environmentv1.Created{
		Environment: &environmentv1.Environment{Name: "shut", Freezes: []*environmentv1.Freeze{freeze}},
	})
	w.apply(ledger.Server, closed, &serverv1.Changed{Environment: "shut"})
	for purge, want := range map[bool]map[string]uint32{
		false: {},
		true:  {code.RolloutOverlaps: 1, code.Held: 1, code.Closed: 1},
	} {
		q := &intentv1.Refresh{On: &intentv1.Selector{All: true}, PurgeKept: purge}
		plan := intent.Plan(w, intent.Ask{
			ID: ident.From("purge"), Actor: "alice", Verb: "refresh", At: time.Unix(99, 0),
			Intent: &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: q}},
		})
		have := map[string]uint32{}
		for _, r := range plan.Reasons {
			have[r.Code] += r.Count
		}
		if diff := cmp.Diff(want, have); diff != "" || plan.Changed != uint32(4-len(want)) {
			t.Errorf("purge %v changes %d servers; left out (-want +have):\n%s", purge, plan.Changed, diff)
		}
	}
}

// No more servers than a change reaches without waves lose their way back at once, unless the request allows it.
func TestAPurgeOfManyServersAtOnceIsRefused(t *testing.T) {
	for _, c := range []struct {
		servers int
		q       *intentv1.Intent
		want    string
	}{
		{intent.MostAtOnce, refreshOfAll(true), ""},
		{intent.MostAtOnce + 1, refreshOfAll(true), code.TooWide},
		{intent.MostAtOnce + 1, refreshOfAll(false), ""},
		{intent.MostAtOnce + 1, &intentv1.Intent{Ask: refreshOfAll(true).Ask, AtOnce: true}, ""},
	} {
		plan := intent.Plan(fleet(c.servers), intent.Ask{
			ID: ident.From("purge"), Actor: "alice", Verb: "refresh", At: time.Unix(99, 0), Intent: c.q,
		})
		if have := plan.GetRefusal().GetCode(); have != c.want {
			t.Errorf("%v on %d servers: %q; want %q", c.q, c.servers, have, c.want)
		}
	}
}

// A critical section defers changes of agents, and no request that changes none.
func TestARefreshDoesNotWaitForACriticalSection(t *testing.T) {
	w := fleet(1)
	w.apply(ledger.Server, ident.From("server", "0"), &serverv1.ConditionChanged{
		State: serverv1.ExecutorState_EXECUTOR_STATE_BUSY, Code: code.CriticalSection, Reason: "backup",
	})
	var have []*intentv1.Target
	intent.Plan(w, intent.Ask{
		ID: ident.From("refresh"), Actor: "alice", Verb: "refresh", At: time.Unix(99, 0), Intent: refreshOfAll(false),
	}).Targets("", nil, func(t *intentv1.Target) bool {
		have = append(have, t)
		return true
	})
	if len(have) != 1 || have[0].Effect != intentv1.Effect_EFFECT_CHANGE || have[0].Reason != nil {
		t.Errorf("planned %v; want a change without a reason to wait", have)
	}
}

func refreshOfAll(purge bool) *intentv1.Intent {
	q := &intentv1.Refresh{On: &intentv1.Selector{All: true}, PurgeKept: purge}
	return &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: q}}
}
