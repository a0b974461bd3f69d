package registry

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// startsIn is a rollout that begins after a time.
func startsIn(d time.Duration) *intentv1.Intent {
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().StartAt = timestamppb.New(time.Now().Add(d))
	return in
}

// The environment is frozen for a day.
func TestAForecastAndACostCountFromTheTimeThatARolloutBegins(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	s.frozen()
	for name, c := range map[string]struct {
		in     *intentv1.Intent
		frozen bool
	}{
		"now":           {waves(&rolloutv1.Strategy{}), true},
		"in an hour":    {startsIn(time.Hour), true},
		"in two days":   {startsIn(48 * time.Hour), false},
		"after the day": {startsIn(25 * time.Hour), false},
	} {
		plan := must[*registryv1.PlanRolloutResponse](s, "PlanRollout",
			&registryv1.PlanRolloutRequest{Intent: c.in, Forecast: true})
		if took := plan.GetForecast().GetTook_50().AsDuration(); took == 0 || (took > 20*time.Hour) != c.frozen {
			t.Errorf("%s: it takes %s; want the rest of the freeze: %t", name, took, c.frozen)
		}
		if frozen := plan.Closed > 0; frozen != c.frozen {
			t.Errorf("%s: %d servers are closed; want some: %t", name, plan.Closed, c.frozen)
		}
	}
}
