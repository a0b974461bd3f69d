package operator

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"slices"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

type planTarget = *intentv1.Target

// planListing shows what a plan does. The registry computes all of it.
var planListing = listing[planTarget]{
	name: func(t planTarget) string { return t.GetServerName() + "/" + t.GetAgent() },
	columns: []column[planTarget]{
		{title: "SERVER", value: func(_ view, t planTarget) string { return t.GetServerName() }},
		{title: "AGENT", value: func(_ view, t planTarget) string { return t.GetAgent() }},
		{title: "FROM", value: func(_ view, t planTarget) string { return t.GetFrom().GetVersion() }},
		{title: "TO", value: func(_ view, t planTarget) string { return t.GetTo().GetVersion() }},
		{title: "DIGEST", value: func(v view, t planTarget) string { return digestText(v, t.GetTo().GetDigest()) }},
		{title: "WHAT", value: func(_ view, t planTarget) string { return moveText(t) }},
		{title: "OWN", value: func(_ view, t planTarget) string { return pairs(t.GetOwn()) }},
		{title: "REASON", value: func(_ view, t planTarget) string { return reasonText(t.GetReason()) }},
		{title: "IMAGE", wide: true, value: func(_ view, t planTarget) string { return t.GetTo().GetId() }},
	},
}

// digestText writes a digest, whole for the wide table.
func digestText(v view, digest []byte) string {
	text := hex.EncodeToString(digest)
	if !v.wide {
		text = text[:min(12, len(text))]
	}
	return text
}

// moveText says what happens to a server: the kind of its change, or why there is none.
func moveText(t planTarget) string {
	if t.GetEffect() == intentv1.Effect_EFFECT_CHANGE {
		return word(t.GetMove())
	}
	return word(t.GetEffect())
}

func reasonText(r *apiv1.Refusal) string {
	if r == nil {
		return ""
	}
	return r.GetCode() + ": " + r.GetMessage()
}

// planRows is how many servers of a plan a person is shown before the work.
const planRows = 50

// planned is what the registry says that intents would do.
type planned struct {
	asks    []*registryv1.PlanIntentRequest
	plans   []*intentv1.Plan
	targets []planTarget // as many as were asked for
	many    bool         // about every agent: one that is refused does not end the others
}

// plan asks what intents would do, with limit targets of each at most; 0 means all.
func (s *session) plan(
	ctx context.Context, limit uint32, effects []intentv1.Effect, asks ...*registryv1.PlanIntentRequest,
) (*planned, error) {
	p := &planned{asks: asks}
	for _, q := range asks {
		q.Effects = effects
		r, err := s.planOf(ctx, limit, q)
		if err != nil {
			return nil, err
		}
		p.plans = append(p.plans, r.GetPlans()...)
		p.targets = append(p.targets, r.GetTargets()...)
		p.many = p.many || q.EveryAgent
	}
	return p, nil
}

// planOf reads the parts of one plan. Each part is computed anew, so all must be of one world.
func (s *session) planOf(
	ctx context.Context, limit uint32, q *registryv1.PlanIntentRequest,
) (*registryv1.PlanIntentResponse, error) {
	var first []*intentv1.Plan
	ask := func(ctx context.Context, page *apiv1.Page) (*registryv1.PlanIntentResponse, error) {
		q.Page = page
		r, err := call[*registryv1.PlanIntentResponse](ctx, s, "PlanIntent", q)
		switch {
		case err != nil:
			return nil, err
		case first == nil:
			first = r.GetPlans()
			return r, nil
		case !slices.EqualFunc(first, r.GetPlans(), samePlan):
			return nil, refuse(fault.Conflict, &apiv1.Refusal{
				Code: "CONFLICT", Message: "the fleet changed while the plan was listed", Try: "the same command again",
			})
		}
		r.Plans = nil // they came with the first part
		return r, nil
	}
	return collect(ctx, pageFlags{limit: limit}, ask)
}

func samePlan(a, b *intentv1.Plan) bool {
	return a.GetAgent() == b.GetAgent() && bytes.Equal(a.GetTargetsSha256(), b.GetTargetsSha256())
}

// changed returns how many changes the plans make.
func (p *planned) changed() int {
	n := 0
	for _, one := range p.plans {
		if one.GetRefusal() == nil {
			n += int(one.GetChanged())
		}
	}
	return n
}

// refusal returns why nothing is done: the first plan that is refused, or, of plans for
// every agent, when all are.
func (p *planned) refusal() error {
	for _, one := range p.plans {
		r := one.GetRefusal()
		if r != nil && (!p.many || p.refused() == len(p.plans)) {
			return refusedIntent(takenForChannel(one.GetIntent(), r))
		}
	}
	return nil
}

// refused returns how many plans are refused.
func (p *planned) refused() int {
	n := 0
	for _, one := range p.plans {
		if one.GetRefusal() != nil {
			n++
		}
	}
	return n
}

// shownEffects are what a person is shown of a plan; the rest is counted.
var shownEffects = []intentv1.Effect{intentv1.Effect_EFFECT_CHANGE, intentv1.Effect_EFFECT_LEFT_OUT}

// showPlan prints plans as data: every server of them.
func (s *session) showPlan(ctx context.Context, asks ...*registryv1.PlanIntentRequest) (*planned, error) {
	effects := shownEffects
	if !s.output.isTable() || s.output.format == formatWide {
		effects = nil
	}
	p, err := s.plan(ctx, 0, effects, asks...)
	if err != nil {
		return nil, err
	}
	s.sayPlans(p)
	if len(p.targets) == 0 && s.output.isTable() {
		return p, nil
	}
	return p, show(s, planListing, &registryv1.PlanIntentResponse{Plans: p.plans, Targets: p.targets}, p.targets)
}

// previewPlan shows a person what would be done: the first servers, and the rest as a count.
func (s *session) previewPlan(p *planned) error {
	s.sayPlans(p)
	rows := slices.Clone(p.targets)
	if len(rows) > planRows {
		rows = rows[:planRows]
	}
	if len(rows) > 0 {
		columns, _ := chosen(nil, s.output.format == formatWide, planListing.columns)
		if err := printTable(s.err, s.view(), columns, rows, true); err != nil {
			return err
		}
	}
	shown := 0
	for _, t := range rows {
		if t.GetEffect() == intentv1.Effect_EFFECT_CHANGE {
			shown++
		}
	}
	if n := p.changed() - shown; n > 0 {
		s.say("… and %d more; --dry-run lists all", n)
	}
	return nil
}

// sayPlans says of each plan what it would do, and why servers do not change.
func (s *session) sayPlans(p *planned) {
	for _, one := range p.plans {
		s.say("%s", planText(one))
		for _, r := range one.GetReasons() {
			s.say("  %d %s: %s", r.GetCount(), word(r.GetEffect()), reasonText(r.GetFirst()))
		}
	}
}

func planText(p *intentv1.Plan) string {
	if r := p.GetRefusal(); r != nil {
		return "refused: " + p.GetAgent() + ": " + fault.Line(r)
	}
	return fmt.Sprintf("plan: %s would change %s%s", askText(p.GetIntent(), p.GetAgent()),
		plural(int(p.GetChanged()), "server"), countsText(p.GetAlready(), p.GetPassedOver(), p.GetLeftOut()))
}
