package display

import (
	"cmp"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// ExplainNewest returns the row of the newest image of the channel that an agent on a server follows, from the plan to
// bring it there; false when the plan is about no image. The choice is that of the plan.
func ExplainNewest(
	s Server, plan *registryv1.PlanIntentResponse, choice *intentv1.ImageChoice,
) (row Explanation, ok bool) {
	if len(plan.GetPlans()) != 1 || len(plan.GetTargets()) != 1 {
		return row, false
	}
	p, t := plan.GetPlans()[0], plan.GetTargets()[0]
	verb := "up"
	if p.GetIntent().GetInstall() != nil {
		verb = "install"
	}
	row = Explanation{What: "newest", Name: t.GetAgent(), Is: "nothing", Reason: Reason(t.GetReason())}
	for _, c := range p.GetChosen() {
		row.Is = c.GetImage().GetVersion() + " of channel " + cmp.Or(choice.GetChannel(), c.GetChannel())
		if choice.GetChannel() == "" && c.GetChannel() == "" {
			row.Is = c.GetImage().GetVersion() + " of the default channel"
		}
	}
	switch t.GetEffect() {
	case intentv1.Effect_EFFECT_CHANGE:
		row.State = "wanted already"
		if brings(t.GetMove()) {
			row.State = "available"
			row.Next = "garrison " + verb + " " + ChoiceText(t.GetAgent(), choice) + " --on " + s.GetName()
		}
	case intentv1.Effect_EFFECT_ALREADY:
		row.State = "wanted already"
		if t.GetReason() != nil {
			row.State = "not taken"
		}
	default:
		row.State = "not possible"
		row.Next = strings.ReplaceAll(t.GetReason().GetTry(), "--on SELECTOR", "--on "+s.GetName())
	}
	return row, true
}

// brings reports whether a change brings another image than is wanted.
func brings(m intentv1.Move) bool {
	return m == intentv1.Move_MOVE_INSTALL || m == intentv1.Move_MOVE_UPGRADE || m == intentv1.Move_MOVE_DOWNGRADE
}
