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
	said := 0
	for _, line := range differences(before.targets, now.targets) {
		if said++; said > 10 {
			env.Say("  …")
			return
		}
		env.Say("  %s", line)
	}
}

// differences returns a line for each shown server that a later plan treats differently.
func differences(before, now []display.PlanTarget) []string {
	was := map[string]string{}
	for _, t := range before {
		was[display.Plan.Name(t)] = targetText(t)
	}
	var out []string
	for _, t := range now {
		name := display.Plan.Name(t)
		if text, ok := was[name]; !ok {
			out = append(out, name+": "+targetText(t)+", not planned before")
		} else if text != targetText(t) {
			out = append(out, name+": planned "+text+", now "+targetText(t))
		}
		delete(was, name)
	}
	for _, t := range before {
		if text, ok := was[display.Plan.Name(t)]; ok {
			out = append(out, display.Plan.Name(t)+": planned "+text+", now nothing")
		}
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
