package registry

import (
	"context"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	tasknoun "github.com/garrison-fleet/garrison/pkg/noun/task"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/rollouts"
)

func TestAPlanAndARunningRolloutSayHowLongTheyTakeAndWhichServersAreSlow(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	s.append(fact(ledger.Task, ident.New(), &taskv1.Succeeded{Outcome: &taskv1.Outcome{
		Steps: []*taskv1.StepTime{{Step: taskv1.Step_STEP_FETCH, Took: durationpb.New(time.Millisecond)}},
	}}))
	in := waves(&rolloutv1.Strategy{})
	plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
		&registryv1.PlanRolloutRequest{Intent: in, Forecast: true})
	if f := plan.GetForecast(); f.GetSucceeded() == 0 || f.GetTook_90().AsDuration() < f.GetTook_50().AsDuration() {
		t.Errorf("the plan takes %v; want two times from runs that succeeded", f)
	}

	id := s.accepted(topology.VerbRollout, in).Id // no server does what it brings
	var r *registryv1.GetRolloutResponse
	polltest.Eventually(t, "a server is slow", func() bool {
		r = must[*registryv1.GetRolloutResponse](s, "GetRollout",
			&registryv1.GetRolloutRequest{RolloutId: id, Forecast: true})
		return r.SlowCount > 0
	})
	slow := r.Slow[0]
	if slow.Agent != "web" || slow.Step != "queued" || slow.ServerName == "" ||
		slow.Took.AsDuration() <= rollouts.SlowTimes*slow.Median.AsDuration() {
		t.Errorf("slow is %v; want web queued for longer than three times the median", slow)
	}
	if r.Left_50 == nil || r.Left_90.AsDuration() < r.Left_50.AsDuration() {
		t.Errorf("it goes on for %v to %v", r.Left_50, r.Left_90)
	}
}

// A client waits for bus.DefaultTimeout, and a replay or a large forecast may take many times that.
func TestAPlanAndTheStateOfARolloutDoNotWaitForAReplay(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	s.append(fact(ledger.Task, ident.New(), &taskv1.Succeeded{Outcome: &taskv1.Outcome{
		Steps: []*taskv1.StepTime{{Step: taskv1.Step_STEP_FETCH, Took: durationpb.New(time.Millisecond)}},
	}}))
	records, later := *s.r.records, time.Duration(0)
	records.Now = func() time.Time { return s.r.records.Now().Add(later) }
	api := rollouts.NewAPI(&records, s.r.lookup, nil, zerolog.Nop())
	past := rollouts.NewPast(api, s.r.cfg.Conn, tasknoun.DefaultConcurrency)
	in := waves(&rolloutv1.Strategy{})
	ctx := context.Background()
	replay := func() (end func()) {
		end, err := past.TakeTurn(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return end
	}
	end := replay()
	plan, err := past.PlanAhead(ctx, bus.Caller{Actor: "alice"}, &registryv1.PlanRolloutRequest{
		Intent: in, Forecast: true,
	})
	if err != nil || plan.Title == "" || plan.Forecast != nil {
		t.Errorf("the plan beside a replay: %v, %v; want one without a forecast", plan, err)
	}
	end()

	q := &registryv1.GetRolloutRequest{RolloutId: s.accepted(topology.VerbRollout, in).Id, Forecast: true}
	left := func() *durationpb.Duration {
		r, err := past.GetAhead(ctx, bus.Caller{}, q)
		if err != nil {
			t.Fatal(err)
		}
		return r.Left_90
	}
	before := left()
	if before == nil {
		t.Fatal("it does not say how long it goes on")
	}
	end = replay()
	later = rollouts.OutlookFor
	if have := left(); !proto.Equal(have, before) {
		t.Errorf("beside a replay it goes on for %v; want the last answer, %v", have, before)
	}
	later += rollouts.OutlookStale
	if have := left(); have != nil {
		t.Errorf("beside a long replay it goes on for %v; want no answer", have)
	}
	end()
	if left() == nil {
		t.Error("after the replay there is no answer; want what is computed now")
	}
}
