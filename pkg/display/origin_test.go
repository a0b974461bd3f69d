package display

import (
	"testing"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestTheNewestImageOfAChannelIsExplainedByWhatAnUpgradeWouldDo(t *testing.T) {
	up := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{}}}
	install := &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: &intentv1.Install{}}}
	dev := &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: "dev"}}
	in := func(channel string) []*intentv1.Chosen {
		return []*intentv1.Chosen{{Channel: channel, Image: &imagev1.Ref{Version: "2.0.0"}}}
	}
	why := &apiv1.Refusal{Code: "FAILED_BEFORE", Message: "it failed", Try: "garrison up web@2 --on SELECTOR, again"}
	const change, upgrade = intentv1.Effect_EFFECT_CHANGE, intentv1.Move_MOVE_UPGRADE
	for name, c := range map[string]struct {
		ask    *intentv1.Intent
		chosen []*intentv1.Chosen
		choice *intentv1.ImageChoice
		target *intentv1.Target
		want   Explanation
	}{
		"an upgrade brings it": {up, in("beta"), nil, &intentv1.Target{Effect: change, Move: upgrade},
			Explanation{Is: "2.0.0 of channel beta", State: "available", Next: "garrison up web --on web-1"}},
		"a default follows another channel": {up, in("beta"), dev, &intentv1.Target{Effect: change, Move: upgrade},
			Explanation{Is: "2.0.0 of channel dev", State: "available", Next: "garrison up web@dev --on web-1"}},
		"an install brings it": {install, in(""), nil,
			&intentv1.Target{Effect: change, Move: intentv1.Move_MOVE_INSTALL},
			Explanation{
				Is: "2.0.0 of the default channel", State: "available", Next: "garrison install web --on web-1",
			}},
		"only the configuration differs": {up, in(""), nil,
			&intentv1.Target{Effect: change, Move: intentv1.Move_MOVE_CONFIGURE},
			Explanation{Is: "2.0.0 of the default channel", State: "wanted already"}},
		"it is wanted": {up, in(""), nil, &intentv1.Target{Effect: intentv1.Effect_EFFECT_ALREADY},
			Explanation{Is: "2.0.0 of the default channel", State: "wanted already"}},
		"a newer one runs": {up, in(""), nil, &intentv1.Target{Effect: intentv1.Effect_EFFECT_ALREADY, Reason: why},
			Explanation{Is: "2.0.0 of the default channel", State: "not taken", Reason: "FAILED_BEFORE: it failed"}},
		"it failed there": {up, in(""), nil, &intentv1.Target{Effect: intentv1.Effect_EFFECT_LEFT_OUT, Reason: why},
			Explanation{Is: "2.0.0 of the default channel", State: "not possible",
				Next: "garrison up web@2 --on web-1, again", Reason: "FAILED_BEFORE: it failed"}},
		"the channel has none": {up, nil, nil, &intentv1.Target{Effect: intentv1.Effect_EFFECT_LEFT_OUT, Reason: why},
			Explanation{Is: "nothing", State: "not possible",
				Next: "garrison up web@2 --on web-1, again", Reason: "FAILED_BEFORE: it failed"}},
	} {
		c.target.Agent, c.want.What, c.want.Name = "web", "newest", "web"
		plan := &registryv1.PlanIntentResponse{
			Plans: []*intentv1.Plan{{Intent: c.ask, Chosen: c.chosen}}, Targets: []*intentv1.Target{c.target},
		}
		row, ok := ExplainNewest(&serverv1.Server{Name: "web-1"}, plan, c.choice)
		if !ok || row != c.want {
			t.Errorf("%s: %v %+v\nwant %+v", name, ok, row, c.want)
		}
	}
	refused := &registryv1.PlanIntentResponse{Plans: []*intentv1.Plan{{Intent: up, Refusal: why}}}
	if row, ok := ExplainNewest(&serverv1.Server{}, refused, nil); ok {
		t.Errorf("a plan that is refused has the row %+v", row)
	}
}
