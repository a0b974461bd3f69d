package inventory

import (
	"context"
	"fmt"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// Foresee adds to the changes of label rules how many servers meet them, and to those of defaults how many servers
// would get their agents now. What needs an environment or an agent that the same plan creates has no servers yet. A
// plan that is one default sets it only as long as it installs what was shown.
func Foresee(ctx context.Context, env *cli.Env, plan *declare.Plan) error {
	visible := len(plan.Visible())
	for i, c := range plan.Changes {
		if c.Action != declare.Create && c.Action != declare.Update {
			continue
		}
		if rule, ok := c.Next.(*labelrulev1.LabelRule); ok {
			if err := foreseeRule(ctx, env, &plan.Changes[i], rule, visible); err != nil {
				return err
			}
		}
		next, ok := c.Next.(*environmentv1.Default)
		if !ok {
			continue
		}
		q := defaultRequest(c, next)
		r, err := cli.Call[*registryv1.PlanDefaultsResponse](ctx, env,
			&registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Set{Set: q}})
		if fault.Is(err, fault.NotFound) && visible > 1 {
			continue
		}
		if err != nil {
			return err
		}
		now, waiting := work.Installs(r.GetPlans())
		plan.Changes[i].Note = fmt.Sprintf("installs the agent on %s now; %d wait", output.Plural(now, "server"),
			waiting)
		if visible == 1 {
			plan.Changes[i].PlanSha256 = r.GetPlanSha256()
		}
	}
	return nil
}

// foreseeRule notes how many servers meet the conditions of a rule.
func foreseeRule(
	ctx context.Context, env *cli.Env, c *declare.Change, rule *labelrulev1.LabelRule, visible int,
) error {
	q := ruleRequest(*c, rule)
	q.DryRun, q.Owner = true, nil
	r, err := cli.Call[*registryv1.SetLabelRuleResponse](ctx, env, q)
	switch {
	case fault.Is(err, fault.NotFound) && visible > 1, fault.Is(err, fault.Invalid) && visible > 1:
		return nil // its environment, or the room for it, comes with the same plan; otherwise the registry refuses it
	case err != nil:
		return err
	}
	c.Note = "matches " + output.Plural(int(r.GetMatches()), "server")
	return nil
}
