package rollout

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestAPlanDescribesWhatWasAskedOfItsWaves(t *testing.T) {
	filled := func() *rolloutv1.Strategy {
		return &rolloutv1.Strategy{
			Cover: []string{"platform", "env"}, Silence: durationpb.New(2 * time.Minute), DonePercent: 100,
		}
	}
	every := &rolloutv1.Strategy{
		Cover: []string{"label.rack", "env"}, Spread: "label.rack", Silence: durationpb.New(3 * time.Minute),
		DonePercent: 90, DoneAfter: durationpb.New(time.Hour),
	}
	for name, c := range map[string]struct {
		asked, filled *rolloutv1.Strategy
		uncovered     []string
		more          uint32
		want          []string
	}{
		"defaults": {&rolloutv1.Strategy{}, filled(), nil, 0, nil},
		"left out": {
			&rolloutv1.Strategy{}, filled(), []string{"env a", "env b"}, 0, []string{"no canary covers: env a; env b"},
		},
		"many of them": {
			&rolloutv1.Strategy{}, filled(), []string{"env a"}, 7, []string{"no canary covers: env a; and 7 more"},
		},
		"everything": {every, every, nil, 0, []string{
			"canaries cover the combinations of label.rack, env",
			"each wave takes servers of each label.rack in turn",
			"broken once reached and offline for 3m0s",
			"ends once 90 % of the servers succeeded and 1h0m0s passed since the last wave began",
		}},
	} {
		p := &registryv1.PlanRolloutResponse{
			Strategy: c.filled, Uncovered: c.uncovered, MoreUncovered: c.more,
			Intent: &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{Strategy: c.asked}}},
		}
		if have := strategyLines(p); !slices.Equal(have, c.want) {
			t.Errorf("%s: %q, want %q", name, have, c.want)
		}
	}
}
