package rollout

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// longestWatch is how long a command watches a rollout unless it says.
const longestWatch = 24 * time.Hour

// doing is how a rollout is begun and followed.
type doing struct {
	yes, detach, dryRun bool
	timeout             time.Duration
	saved               []display.RolloutTarget // the servers of a saved plan; nil means that they are not known

	// wide is the plan of the intents in whose place the rollout is; nil for one that was asked for. Other formats than
	// tables show then what a change of few servers shows.
	wide *work.Planned
}

// asFew reports whether what is printed has the shape of a change of few servers.
func (d doing) asFew(env *cli.Env) bool { return d.wide != nil && !env.Output.IsTable() }

func (d *doing) add(c *cobra.Command) {
	c.Flags().BoolVarP(&d.yes, "yes", "y", false, "do not ask for confirmation")
	c.Flags().BoolVar(&d.dryRun, "dry-run", false, "show what would be done; change nothing")
	c.Flags().BoolVar(&d.detach, "detach", false, "do not watch; the rollout goes on")
	cli.TimeVar(c.Flags(), &d.timeout, "timeout", longestWatch, 0,
		"stop watching after this `DURATION`, with exit code 7; the rollout goes on")
}

func startCommand(env *cli.Env) *cobra.Command {
	var q asked
	var d doing
	c := &cobra.Command{
		Use:   "start [AGENT[@VERSION|@IMAGE|@CHANNEL]]… [--configure AGENT]… | --all [--exclude AGENT]… --on SELECTOR",
		Short: "Start a rollout: plan, confirm, do exactly that, and watch.",
		Long: `Start a rollout: plan, confirm, do exactly that, and watch. With --plan FILE, do exactly what a plan
shows that garrison rollout plan --out wrote, or nothing when the fleet changed in between.`,
		Example: "  garrison rollout start beacon@1.1.0 --on env=prod --canaries 3 --waves 10%,50% --soak 5m\n" +
			"  garrison rollout start --all --on all --waves 5%,25% --approve --yes --detach\n" +
			"  garrison rollout start --plan plan.json --at \"22:00 Europe/Berlin\"",
		PreRunE: cli.Prints(env, display.Rollouts),
		RunE: func(c *cobra.Command, a []string) error {
			if q.plan != "" {
				return startSaved(c, env, &q, d, a)
			}
			ask, err := q.request(c.Context(), env, a)
			if err != nil {
				return err
			}
			return propose(c.Context(), env, d, ask, "Start this rollout?")
		},
	}
	q.add(c)
	q.at.add(c.Flags(), env.Now, "at once, or the time in --plan")
	cli.TextVar(c.Flags(), &q.plan, "plan", cli.NotEmpty("file"), "do exactly what the plan in this `FILE` shows")
	d.add(c)
	groupFlags(c.Flags())
	return c
}

// startSaved starts the rollout of a saved plan, for which a time and a reason may be given beside it.
func startSaved(c *cobra.Command, env *cli.Env, q *asked, d doing, agents []string) error {
	if len(agents) > 0 {
		return cli.Usage("--plan and the agent %s exclude each other: the plan names its agents", agents[0])
	}
	own := &cobra.Command{}
	(&asked{}).add(own)
	for _, name := range flagNames(own) {
		if name != "message" && c.Flags().Changed(name) {
			return cli.Usage("--plan and --%s exclude each other: the plan is done exactly as it is", name)
		}
	}
	p, err := load(q.plan)
	if err == nil {
		err = q.at.set(p.GetIntent().GetRollout())
	}
	if err != nil {
		return err
	}
	if q.note != "" {
		p.Intent.Note = q.note
	}
	d.saved = p.GetTargets()
	return propose(c.Context(), env, d, &registryv1.PlanRolloutRequest{Intent: p.GetIntent()}, "Start this rollout?")
}

// undoRequest returns the request for the plan of an undo; without a strategy it has that of the rollout.
func undoRequest(id string, how *rolloutv1.Strategy, atOnce bool) *registryv1.PlanRolloutRequest {
	ask := &intentv1.Rollout{UndoOf: id, Strategy: how}
	return &registryv1.PlanRolloutRequest{
		Intent: &intentv1.Intent{AtOnce: atOnce, Ask: &intentv1.Intent_Rollout{Rollout: ask}},
	}
}

// given reports whether any flag of the strategy is set, but for one.
func (f *strategyFlags) given(c *cobra.Command, but string) bool {
	own := &cobra.Command{}
	(&strategyFlags{}).add(own)
	for _, name := range flagNames(own) {
		if name != but && c.Flags().Changed(name) {
			return true
		}
	}
	return false
}

func refusedPlan(p *registryv1.PlanRolloutResponse) error {
	if p.GetRefusal() == nil {
		return nil
	}
	return client.Refused(p.GetRefusal())
}

// propose shows the plan of a rollout, asks, publishes exactly that plan, and watches.
func propose(ctx context.Context, env *cli.Env, d doing, q *registryv1.PlanRolloutRequest, question string) error {
	q.Forecast = true
	if d.dryRun {
		return preview(ctx, env, d, q)
	}
	p, err := said(ctx, env, d, cli.PageFlags{Limit: work.PlanRows}, q)
	if err != nil {
		return err
	}
	if err := env.Confirm(ctx, d.yes, question); err != nil {
		return err
	}
	id, record, err := env.Decide(ctx, p.GetIntent())
	if err != nil {
		return err
	}
	at, handle := p.GetIntent().GetRollout().GetStartAt(), ident.Handle(id)
	if at != nil {
		env.Say("rollout %s begins %s", handle, listing.Stamp(at))
		env.Say("to follow:  garrison watch %s", handle)
	} else {
		env.Say("rollout %s began", handle)
	}
	env.Say("to stop it: garrison rollout pause %s", handle)
	env.Say("to end it:  garrison rollout abort %s", handle)
	if d.detach && d.asFew(env) {
		return output.ShowOne(env.Output, env.Output.View(), display.Records, record)
	}
	if d.detach || at != nil {
		r, err := get(ctx, env, id)
		if err != nil {
			return err
		}
		return output.ShowOne(env.Output, env.Output.View(), display.Rollouts, r.GetRollout())
	}
	return d.follow(ctx, env, id)
}

// preview lists every server of the plan of a rollout.
func preview(ctx context.Context, env *cli.Env, d doing, q *registryv1.PlanRolloutRequest) error {
	if d.asFew(env) {
		if _, err := said(ctx, env, d, cli.PageFlags{Limit: 1}, q); err != nil {
			return err
		}
		return d.wide.List(env)
	}
	if err := cli.Prints(env, display.RolloutTargets)(nil, nil); err != nil {
		return err
	}
	p, err := said(ctx, env, d, cli.PageFlags{}, q)
	if err != nil {
		return err
	}
	return output.Show(env.Output, display.RolloutTargets, p, p.GetTargets())
}

// said returns the plan of a rollout with some of its servers, and prints what it does: the servers of one that is to
// be confirmed first, so that the summary stands above the question. A plan that is refused is an
// error; of a saved one that is stale, it prints what moved.
func said(
	ctx context.Context, env *cli.Env, d doing, page cli.PageFlags, q *registryv1.PlanRolloutRequest,
) (*registryv1.PlanRolloutResponse, error) {
	p, err := planned(ctx, env, page, q)
	if err != nil {
		return nil, err
	}
	if p.GetRefusal().GetCode() == code.PlanStale {
		sayMoved(ctx, env, q.GetIntent(), d.saved)
		return nil, client.Refused(p.GetRefusal())
	}
	if rows := p.GetTargets(); p.GetRefusal() == nil && !d.dryRun {
		if err := work.SayRows(env, display.RolloutTargets, rows, int(serversOf(p))-len(rows)); err != nil {
			return nil, err
		}
	}
	sayPlan(env, p)
	return p, refusedPlan(p)
}
