package work

import (
	"context"
	"fmt"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/watch"
)

// Proposal is what a writing verb asks for.
type Proposal struct {
	Verb     string // the verb in the intent's subject
	Question string // the question to confirm; empty asks nothing
	Asks     []*registryv1.PlanIntentRequest

	// Wide carries out the change when it reaches more servers than a handful, unless --at-once; nil: as any other.
	Wide func(context.Context, *Planned) error
}

// Handful is how many servers change at once where neither a strategy nor --at-once says how.
const Handful = 5

// Propose shows the registry's plan, asks for confirmation, publishes exactly that plan, and watches.
func Propose(ctx context.Context, env *cli.Env, w Flags, p Proposal) error {
	for _, q := range p.Asks {
		w.Set(q.Intent)
	}
	if w.DryRun {
		return p.preview(ctx, env, w)
	}
	if err := printsWork(env, w); err != nil {
		return err
	}
	shown, err := plan(ctx, env, PlanRows, shownEffects, p.Asks...)
	if err != nil {
		return err
	}
	if p.wide(w, shown) {
		return p.Wide(ctx, shown)
	}
	if err := shown.refusal(); err != nil {
		return err
	}
	if err := shown.preview(env); err != nil {
		return err
	}
	if shown.changed() == 0 {
		env.Say("nothing to do")
		return shown.outcome()
	}
	if p.Question != "" {
		question := fmt.Sprintf("%s on %s?", p.Question, listing.Plural(shown.changed(), "server"))
		if err := env.Confirm(ctx, w.Yes, question); err != nil {
			return err
		}
	}
	return do(ctx, env, w, p.Verb, shown)
}

// preview shows what would be done.
func (p Proposal) preview(ctx context.Context, env *cli.Env, w Flags) error {
	if err := cli.Prints(env, display.Plan)(nil, nil); err != nil {
		return err
	}
	shown, err := plan(ctx, env, 0, previewed(env), p.Asks...)
	if err != nil {
		return err
	}
	if p.wide(w, shown) {
		return p.Wide(ctx, shown)
	}
	shown.say(env)
	return cli.FirstError(shown.List(env), shown.outcome())
}

// wide reports whether a plan reaches more servers than a handful.
func (p Proposal) wide(w Flags, shown *Planned) bool {
	return p.Wide != nil && !w.AtOnce && shown.Widest() > Handful
}

// do publishes the plans that were shown. Of several intents, a refused one does not end the others.
func do(ctx context.Context, env *cli.Env, w Flags, verb string, p *Planned) error {
	var orders []watch.Order
	var failed error
	for _, one := range p.plans {
		if one.GetRefusal() != nil || one.GetChanged() == 0 {
			continue
		}
		o := watch.Order{Verb: verb, Intent: one.GetIntent(), Agent: one.GetAgent()}
		if err := decide(ctx, env, &o); err != nil {
			if fault.RefusalOf(err).GetCode() == code.PlanStale {
				sayStale(ctx, env, p)
			}
			if len(p.plans) == 1 || fault.RefusalOf(err) == nil {
				return err
			}
			env.Say("%s", cli.LineOf(err))
			failed = cli.FirstError(failed, err)
			continue
		}
		env.Say("%s", decidedText(o))
		if o.Intent.GetDecommission() != nil {
			o.Without = listing.Plural(int(o.Record.GetChanged()), "server") + " retired; there was no agent to remove"
		}
		orders = append(orders, o)
	}
	if len(orders) == 0 {
		return failed
	}
	err := followWork(ctx, env, w, orders)
	if err == nil && (failed != nil || p.refused() > 0) {
		return cli.Ended(cli.ExitPartly)
	}
	return err
}

// outcome returns the error of a plan that is not carried out: refused as a whole, or in part.
func (p *Planned) outcome() error {
	if p == nil {
		return nil
	}
	if err := p.refusal(); err != nil {
		if p.many && len(p.plans) > 1 { // each was printed with its agent
			return cli.Ended(cli.CodeOf(err))
		}
		return err
	}
	if p.refused() > 0 {
		return cli.Ended(cli.ExitPartly)
	}
	return nil
}
