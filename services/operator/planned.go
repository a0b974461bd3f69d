package operator

import (
	"context"
	"fmt"
	"strings"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// codeStale is the code of an intent whose plan does not hold any more.
const codeStale = "PLAN_STALE"

// proposal is what a writing verb wants done.
type proposal struct {
	verb     string // of the subject
	question string // what a person is asked; empty asks nothing
	asks     []*registryv1.PlanIntentRequest
}

// propose shows what the registry would do, asks, publishes exactly that, and watches.
func (s *session) propose(ctx context.Context, w workFlags, p proposal) error {
	for _, q := range p.asks {
		q.Intent.Strict = w.strict
	}
	if w.dryRun {
		if err := prints(s, planListing)(nil, nil); err != nil {
			return err
		}
		shown, err := s.showPlan(ctx, p.asks...)
		return firstError(err, shown.outcome())
	}
	if err := printsWork(s, w); err != nil {
		return err
	}
	shown, err := s.plan(ctx, planRows, shownEffects, p.asks...)
	if err != nil {
		return err
	}
	if err := shown.refusal(); err != nil {
		return err
	}
	if err := s.previewPlan(shown); err != nil {
		return err
	}
	if shown.changed() == 0 {
		s.say("nothing to do")
		return shown.outcome()
	}
	if p.question != "" {
		question := fmt.Sprintf("%s on %s?", p.question, plural(shown.changed(), "server"))
		if err := s.confirm(ctx, w, question); err != nil {
			return err
		}
	}
	return s.do(ctx, w, p.verb, shown)
}

// do publishes what was shown. Of several intents, one that is refused does not end the others.
func (s *session) do(ctx context.Context, w workFlags, verb string, p *planned) error {
	var orders []order
	var failed error
	for _, one := range p.plans {
		if one.GetRefusal() != nil || one.GetChanged() == 0 {
			continue
		}
		o := order{verb: verb, intent: one.GetIntent(), agent: one.GetAgent()}
		if err := s.decide(ctx, &o); err != nil {
			if fault.RefusalOf(err).GetCode() == codeStale {
				s.sayStale(ctx, p)
			}
			if len(p.plans) == 1 || fault.RefusalOf(err) == nil {
				return err
			}
			s.say("%s", lineOf(err))
			failed = firstError(failed, err)
			continue
		}
		s.say("%s", decidedText(o))
		orders = append(orders, o)
	}
	if len(orders) == 0 {
		return failed
	}
	err := s.followWork(ctx, w, orders)
	if err == nil && (failed != nil || p.refused() > 0) {
		return ended(exitPartly)
	}
	return err
}

// outcome returns how a plan that is not carried out ends: refused as a whole, or in part.
func (p *planned) outcome() error {
	if p == nil {
		return nil
	}
	if err := p.refusal(); err != nil {
		return err
	}
	if p.refused() > 0 {
		return ended(exitPartly)
	}
	return nil
}

// sayStale says what became different since a plan was shown: the counts, and the first servers.
func (s *session) sayStale(ctx context.Context, before *planned) {
	now, err := s.plan(ctx, planRows, shownEffects, before.asks...)
	if err != nil {
		return // the refusal says it without them
	}
	s.say("the plan changed %s, and now would change %s",
		plural(before.changed(), "server"), plural(now.changed(), "server"))
	said := 0
	for _, line := range differences(before.targets, now.targets) {
		if said++; said > 10 {
			s.say("  …")
			return
		}
		s.say("  %s", line)
	}
}

// differences says which of the servers that are shown a later plan treats in another way.
func differences(before, now []planTarget) []string {
	was := map[string]string{}
	for _, t := range before {
		was[planListing.name(t)] = targetText(t)
	}
	var out []string
	for _, t := range now {
		name := planListing.name(t)
		if text, ok := was[name]; !ok {
			out = append(out, name+": "+targetText(t)+", which was not planned")
		} else if text != targetText(t) {
			out = append(out, name+": planned "+text+", now "+targetText(t))
		}
		delete(was, name)
	}
	for _, t := range before {
		if text, ok := was[planListing.name(t)]; ok {
			out = append(out, planListing.name(t)+": planned "+text+", now nothing")
		}
	}
	return out
}

// targetText says what happens to one server, in a few words.
func targetText(t planTarget) string {
	if t.GetEffect() != intentv1.Effect_EFFECT_CHANGE {
		return strings.TrimSpace(moveText(t) + " " + t.GetReason().GetCode())
	}
	return strings.TrimSpace(moveText(t) + " " + t.GetTo().GetVersion() + " " + pairs(t.GetOwn()))
}
