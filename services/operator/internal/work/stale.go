package work

import (
	"context"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// sayStale prints what changed since a plan was shown: the counts and the first servers.
func sayStale(ctx context.Context, env *cli.Env, before *planned) {
	now, err := plan(ctx, env, PlanRows, shownEffects, before.asks...)
	if err != nil {
		return // the refusal is printed without them
	}
	env.Say("the plan changed %s, and now would change %s",
		output.Plural(before.changed(), "server"), output.Plural(now.changed(), "server"))
	cli.SayMoved(env, does(before.targets), does(now.targets))
}

// does returns what a plan does to the servers that were shown.
func does(targets []display.PlanTarget) (out []cli.Planned) {
	for _, t := range targets {
		out = append(out, cli.Planned{Name: display.Plan.Name(t), Does: targetText(t)})
	}
	return out
}

// targetText describes in a few words what happens to one server.
func targetText(t display.PlanTarget) string {
	if t.GetEffect() != intentv1.Effect_EFFECT_CHANGE {
		return strings.TrimSpace(display.MoveText(t) + " " + t.GetReason().GetCode())
	}
	return strings.TrimSpace(display.MoveText(t) + " " + t.GetTo().GetVersion() + " " + output.Pairs(t.GetOwn()))
}
