package display

import (
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// PlanTarget is one server of a plan.
type PlanTarget = *intentv1.Target

// Plan lists the servers of a plan, as the registry computed it.
var Plan = output.Listing[PlanTarget]{
	Name: func(t PlanTarget) string { return t.GetServerName() + "/" + t.GetAgent() },
	Columns: []output.Column[PlanTarget]{
		output.Col("SERVER", PlanTarget.GetServerName),
		output.Col("AGENT", PlanTarget.GetAgent),
		output.Col("FROM", func(t PlanTarget) string { return t.GetFrom().GetVersion() }),
		output.Col("TO", func(t PlanTarget) string { return t.GetTo().GetVersion() }),
		{Title: "DIGEST", Value: func(v output.View, t PlanTarget) string {
			return output.DigestText(v,
				t.GetTo().GetDigest())
		}},
		output.Col("WHAT", MoveText),
		output.Col("OWN", func(t PlanTarget) string { return output.Pairs(t.GetOwn()) }),
		output.Col("REASON", func(t PlanTarget) string { return Reason(t.GetReason()) }),
		output.Wide("IMAGE", func(t PlanTarget) string { return t.GetTo().GetId() }),
	},
}

// MoveText returns the kind of a server's change, or why it does not change.
func MoveText(t PlanTarget) string {
	if t.GetEffect() == intentv1.Effect_EFFECT_CHANGE {
		return output.Word(t.GetMove())
	}
	return output.Word(t.GetEffect())
}
