package work

import (
	"bytes"
	"context"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// largestPart is how many targets of a plan one answer holds at most.
const largestPart = 1000

// DefaultsFlags are the flags of verbs that change what environments want.
type DefaultsFlags struct{ DryRun, Yes bool }

// Add adds the flags.
func (f *DefaultsFlags) Add(c *cobra.Command) {
	c.Flags().BoolVar(&f.DryRun, "dry-run", false, "show what would be installed; change nothing")
	c.Flags().BoolVarP(&f.Yes, "yes", "y", false, "do not ask for confirmation")
}

// Defaults is a change of a default, or of the environment of servers.
type Defaults struct {
	Ask      *registryv1.PlanDefaultsRequest
	Summary  func(*registryv1.PlanDefaultsResponse) string // says what it would do
	Question string                                        // the question to confirm
	Do       func(ctx context.Context, planSHA256 []byte) error
}

// ProposeDefaults shows what a change would install, asks for confirmation, and does exactly that.
func ProposeDefaults(ctx context.Context, env *cli.Env, f DefaultsFlags, d Defaults) error {
	limit := PlanRows
	if f.DryRun {
		limit = 0
		if err := cli.Prints(env, display.Plan)(nil, nil); err != nil {
			return err
		}
	}
	r, err := planDefaults(ctx, env, d.Ask, limit)
	if err != nil {
		return err
	}
	env.Say("%s", d.Summary(r))
	p := &Planned{plans: r.GetPlans(), targets: byName(r.GetTargets())}
	if f.DryRun {
		p.say(env)
		return p.List(env)
	}
	if err := p.preview(env); err != nil {
		return err
	}
	if err := env.Confirm(ctx, f.Yes, d.Question); err != nil {
		return err
	}
	err = d.Do(ctx, r.GetPlanSha256())
	if fault.RefusalOf(err).GetCode() == code.PlanStale {
		sayStaleDefaults(ctx, env, d, p)
	}
	return err
}

// sayStaleDefaults prints what changed since a plan was shown.
func sayStaleDefaults(ctx context.Context, env *cli.Env, d Defaults, before *Planned) {
	now, err := planDefaults(ctx, env, d.Ask, PlanRows)
	if err != nil {
		return // the refusal is printed without it
	}
	env.Say("%s", d.Summary(now))
	cli.SayMoved(env, does(before.targets), does(now.GetTargets()))
}

// planDefaults returns a plan with at most limit targets; 0 means all.
func planDefaults(
	ctx context.Context, env *cli.Env, q *registryv1.PlanDefaultsRequest, limit int,
) (whole *registryv1.PlanDefaultsResponse, err error) {
	for cursor := ""; ; {
		q.Page = &apiv1.Page{Limit: largestPart, Cursor: cursor}
		if limit > 0 {
			q.Page.Limit = uint32(limit)
		}
		part, err := cli.Call[*registryv1.PlanDefaultsResponse](ctx, env, q)
		switch {
		case err != nil:
			return nil, err
		case whole == nil:
			whole = part
		case !bytes.Equal(whole.GetPlanSha256(), part.GetPlanSha256()):
			return nil, cli.Refuse(fault.Conflict, &apiv1.Refusal{
				Code: code.Conflict, Message: "the fleet changed while the plan was listed",
				Try: "the same command again",
			})
		default:
			whole.Targets = append(whole.Targets, part.GetTargets()...)
		}
		if cursor = part.GetNextCursor(); cursor == "" || limit > 0 {
			return whole, nil
		}
	}
}

// Installs returns how many installations a plan of defaults has, and how many wait.
func Installs(plans []*intentv1.Plan) (now, waiting int) {
	for _, p := range plans {
		now += int(p.GetChanged())
		waiting += int(p.GetLeftOut())
	}
	return now, waiting
}
