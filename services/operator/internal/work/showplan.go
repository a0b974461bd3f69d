package work

import (
	"context"
	"fmt"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/fault"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// PlanRows is the number of servers of a plan that are shown before the confirmation.
const PlanRows = 10

// shownEffects are the effects whose servers are shown; the others are counted.
var shownEffects = []intentv1.Effect{intentv1.Effect_EFFECT_CHANGE, intentv1.Effect_EFFECT_LEFT_OUT}

// previewed returns the effects whose servers a preview lists: as data, all of them.
func previewed(env *cli.Env) []intentv1.Effect {
	if !env.Output.IsTable() || env.Output.Format == output.FormatWide {
		return nil
	}
	return shownEffects
}

// List prints plans as data, with the servers that were asked for.
func (p *Planned) List(env *cli.Env) error {
	if len(p.targets) == 0 && env.Output.IsTable() {
		return nil
	}
	return output.Show(env.Output, display.Plan, p.document(), p.targets)
}

// preview prints plans to standard error: the first servers, the number of the others, and the summary, which a person
// then sees above the question.
func (p *Planned) preview(env *cli.Env) error {
	rows := p.targets[:min(PlanRows, len(p.targets))]
	shown := 0
	for _, t := range rows {
		if t.GetEffect() == intentv1.Effect_EFFECT_CHANGE {
			shown++
		}
	}
	if err := SayRows(env, display.Plan, rows, p.changed()-shown); err != nil {
		return err
	}
	p.say(env)
	return nil
}

// SayRows prints the first servers of a plan to standard error, and the number of the others.
func SayRows[T any](env *cli.Env, l listing.Listing[T], rows []T, more int) error {
	if len(rows) > 0 {
		columns, _ := listing.Chosen(nil, env.Output.Format == output.FormatWide, l.Columns)
		if err := output.PrintFitted(env.Messages(), env.Output.View(), columns, rows); err != nil {
			return err
		}
	}
	if more > 0 {
		env.Say("… and %d more; --dry-run lists all", more)
	}
	return nil
}

// say prints a summary of each plan.
func (p *Planned) say(env *cli.Env) {
	Summary{Plans: p.plans, Values: p.values, More: p.more}.Say(env)
}

// Summary is what is said of plans besides their servers.
type Summary struct {
	Whole  []string // what is said of all plans together, in place of each; nil for plans that are separate intents
	Plans  []*intentv1.Plan
	Values []*registryv1.ValueChange
	More   uint32 // how many more changes of values there are
}

// Say prints a summary of each plan, why servers do not change, and which values differ.
func (s Summary) Say(env *cli.Env) {
	for _, line := range s.Whole {
		env.Say("%s", line)
	}
	for _, one := range s.Plans {
		if text := s.headOf(one); text != "" {
			env.Say("%s", text)
		}
		for _, r := range one.GetReasons() {
			if why := one.GetRefusal(); why != nil && strings.HasSuffix(why.GetMessage(), r.GetFirst().GetMessage()) {
				continue
			}
			env.Say("  %s%d %s: %s", s.whose(one), r.GetCount(), listing.Word(r.GetEffect()),
				display.Reason(r.GetFirst()))
		}
		for _, text := range display.PlanNotes(one) {
			env.Say("  %s", text)
		}
	}
	for _, v := range s.Values {
		env.Say("  %s", display.ValueChange(v))
	}
	if s.More > 0 {
		env.Say("  … and %d more changes of values", s.More)
	}
}

// headOf returns what is said of a plan before its reasons; "" for nothing.
func (s Summary) headOf(p *intentv1.Plan) string {
	switch {
	case s.Whole == nil && len(s.Plans) == 1 && p.GetRefusal() != nil: // the error says why
		return ""
	case s.Whole == nil:
		return planText(p)
	case p.GetAlready() > 0:
		return fmt.Sprintf("  %s%d up to date", s.whose(p), p.GetAlready())
	}
	return ""
}

// whose returns the agent of a plan where it stands among the others of a whole.
func (s Summary) whose(p *intentv1.Plan) string {
	if s.Whole == nil {
		return ""
	}
	return p.GetAgent() + ": "
}

func planText(p *intentv1.Plan) string {
	if r := p.GetRefusal(); r != nil {
		return "refused: " + p.GetAgent() + ": " + fault.Line(r)
	}
	return fmt.Sprintf("plan: %s would change %s%s", askText(p.GetIntent(), p.GetAgent()),
		listing.Plural(int(p.GetChanged()), "server"), countsText(p.GetAlready(), p.GetPassedOver(), p.GetLeftOut()))
}

// sayStale prints what changed since a plan was shown: the counts and the first servers.
func sayStale(ctx context.Context, env *cli.Env, before *Planned) {
	now, err := plan(ctx, env, PlanRows, shownEffects, before.asks...)
	if err != nil {
		return // the refusal is printed without them
	}
	env.Say("the plan changed %s, and now would change %s",
		listing.Plural(before.changed(), "server"), listing.Plural(now.changed(), "server"))
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
	return strings.TrimSpace(display.MoveText(t) + " " + t.GetTo().GetVersion() + " " + listing.Pairs(t.GetOwn()))
}

// askText returns the verb and the agent of an intent.
func askText(i *intentv1.Intent, agent string) string {
	ask := i.ProtoReflect().WhichOneof(i.ProtoReflect().Descriptor().Oneofs().ByName("ask"))
	if ask == nil {
		return agent
	}
	verb := string(ask.Name())
	switch {
	case i.GetRefresh().GetPurgeKept():
		verb = "undo --purge"
	case display.Restarts(i.GetUpgrade()):
		verb = "restart"
	}
	return strings.TrimSpace(verb + " " + agent)
}

// countsText returns, in parentheses, the numbers of servers that do not change.
func countsText(already, passedOver, leftOut uint32) string {
	var more []string
	if already > 0 {
		more = append(more, fmt.Sprintf("%d up to date", already))
	}
	if passedOver > 0 {
		more = append(more, fmt.Sprintf("%d skipped", passedOver))
	}
	if leftOut > 0 {
		more = append(more, fmt.Sprintf("%d left out", leftOut))
	}
	if len(more) == 0 {
		return ""
	}
	return " (" + strings.Join(more, ", ") + ")"
}
