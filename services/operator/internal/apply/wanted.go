package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	rollouts "github.com/garrison-fleet/garrison/pkg/noun/rollout"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/rollout"
)

// compareWanted adds to a plan what makes the servers of environments run what their files want: one rollout each.
func compareWanted(ctx context.Context, env *cli.Env, set *declare.Set, plan *declare.Plan) error {
	if len(set.Wanted) == 0 {
		return nil
	}
	open, err := openRollouts(ctx, env)
	if err != nil {
		return err
	}
	for _, w := range set.Wanted {
		title := titleOf(w)
		if r := open[title]; r != nil {
			plan.Kept = append(plan.Kept, fmt.Sprintf("environment %s: rollout %s brings what it wants; it is %s",
				w.Environment, listing.ShortID(env.Output.View(), r.GetId()), display.RolloutState(r)))
			continue
		}
		if err := compareOne(ctx, env, w, title, plan); err != nil {
			return err
		}
	}
	return nil
}

// openRollouts returns the rollouts that have not ended, by title.
func openRollouts(ctx context.Context, env *cli.Env) (map[string]*rolloutv1.Rollout, error) {
	q := &registryv1.ListRolloutsRequest{}
	for n := range rolloutv1.State_name {
		if state := rolloutv1.State(n); state != 0 && !rollouts.Ended(state) {
			q.States = append(q.States, state)
		}
	}
	r, err := cli.All[*registryv1.ListRolloutsResponse](ctx, env, q)
	if err != nil {
		return nil, err
	}
	open := map[string]*rolloutv1.Rollout{}
	for _, one := range slices.Backward(r.GetRollouts()) { // of those with one title, the newest
		open[one.GetTitle()] = one
	}
	return open, nil
}

// compareOne plans what one environment wants.
func compareOne(ctx context.Context, env *cli.Env, w declare.Wanted, title string, plan *declare.Plan) error {
	p, err := cli.Call[*registryv1.PlanRolloutResponse](ctx, env,
		&registryv1.PlanRolloutRequest{Intent: intentOf(w, title)})
	if err != nil {
		return err
	}
	if refused := p.GetRefusal(); refused != nil {
		refuseWanted(w, refused, plan)
		return nil
	}
	found := make([]was, len(p.GetSteps()))
	g, asking := errgroup.WithContext(ctx)
	g.SetLimit(mostAsking)
	for n, step := range p.GetSteps() {
		if step.GetChanged() > 0 {
			g.Go(func() (err error) {
				found[n], err = wantedNow(asking, env, w.Environment, step.GetAgent(), versionsOf(step))
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for n, step := range p.GetSteps() {
		addStep(w.Environment, step, found[n], plan)
	}
	plan.Rollouts = append(plan.Rollouts, declare.Rollout{Environment: w.Environment, Intent: p.GetIntent()})
	return nil
}

// refuseWanted notes why nothing is rolled out in an environment. What this apply makes possible waits for the next.
func refuseWanted(w declare.Wanted, refused *apiv1.Refusal, plan *declare.Plan) {
	newAgents := slices.ContainsFunc(plan.Changes, func(c declare.Change) bool {
		return c.Kind == declare.Agents && c.Action == declare.Create
	})
	waits := ""
	switch refused.GetCode() {
	case code.NothingLeft:
		return
	case code.NoServers, code.UnknownEnvironment:
		waits = "it has no server yet"
	case code.UnknownAgent:
		if newAgents {
			waits = "its agents are created now"
		}
	}
	if waits != "" {
		plan.Kept = append(plan.Kept, fmt.Sprintf("environment %s: %s; the next apply brings what it wants",
			w.Environment, waits))
		return
	}
	plan.Problems = append(plan.Problems, declare.Problem{
		At: w.At, Kind: declare.Environments, Name: w.Environment, Refusal: refused,
	})
}

// mostAsking is how many agents are asked about at once.
const mostAsking = 8

// versionsOf returns the versions that a step brings.
func versionsOf(step *intentv1.Plan) string {
	var versions []string
	for _, c := range step.GetChosen() {
		versions = append(versions, c.GetImage().GetVersion())
	}
	slices.Sort(versions)
	return strings.Join(slices.Compact(versions), ", ")
}

// addStep adds the line of one agent, and who wanted something else there.
func addStep(environment string, step *intentv1.Plan, before was, plan *declare.Plan) {
	agent := step.GetAgent()
	for _, r := range step.GetReasons() {
		if r.GetEffect() == intentv1.Effect_EFFECT_LEFT_OUT {
			plan.Kept = append(plan.Kept, fmt.Sprintf("environment %s: %s stays as it is on %s: %s", environment, agent,
				listing.Plural(int(r.GetCount()), "server"), r.GetFirst().GetMessage()))
		}
	}
	if step.GetChanged() == 0 {
		return
	}
	note := "changes " + listing.Plural(int(step.GetChanged()), "server")
	if before.by != "" {
		note += "; " + before.by
	}
	plan.Shown = append(plan.Shown, declare.Shown{
		Action: "roll out", Kind: declare.Environments.Word, Name: environment, Field: "wanted." + agent,
		Before: before.versions, After: versionsOf(step), Note: note,
	})
}

// was is which versions of an agent are wanted in an environment, and who asked for one that is not the declared one.
type was struct{ versions, by string }

// wantedNow asks for it.
func wantedNow(ctx context.Context, env *cli.Env, environment, agent, declared string) (w was, err error) {
	filter := &registryv1.ListInstancesRequest{Environment: environment, Agent: agent}
	r, err := cli.Call[*registryv1.CountInstancesResponse](ctx, env,
		&registryv1.CountInstancesRequest{Filter: filter, By: []string{"wanted-version"}})
	if err != nil {
		return w, err
	}
	var parts []string
	for _, g := range r.GetCounts().GetGroups() {
		version := g.GetValues()[0]
		if version == "" {
			continue // it leaves
		}
		parts = append(parts, fmt.Sprintf("%s on %d", version, g.GetCount()))
		if w.by == "" && version != declared {
			w.by = askedBy(ctx, env, environment, agent, version)
		}
	}
	w.versions = strings.Join(parts, ", ")
	return w, nil
}

// askedBy returns who asked for a version of an agent on a server of an environment; "" when that is not known.
func askedBy(ctx context.Context, env *cli.Env, environment, agent, version string) string {
	r, err := cli.Call[*registryv1.ListInstancesResponse](ctx, env, &registryv1.ListInstancesRequest{
		Environment: environment, Agent: agent, Version: version, Page: &apiv1.Page{Limit: 1},
	})
	if err != nil || len(r.GetInstances()) == 0 {
		return ""
	}
	row := r.GetInstances()[0]
	id := row.GetInstance().GetIntentId()
	in, err := fleet.Intent(ctx, env, id, 0)
	if err != nil {
		return "" // it is no longer kept
	}
	return fmt.Sprintf("%s asked for %s on %s (intent %s)", in.GetActor(), version, row.GetServerName(),
		listing.ShortID(env.Output.View(), id))
}

// intentOf returns the rollout that brings what an environment wants.
func intentOf(w declare.Wanted, title string) *intentv1.Intent {
	ask := &intentv1.Rollout{
		On: &intentv1.Selector{Environment: w.Environment}, Title: title, Strategy: w.Strategy,
	}
	if w.Strategy == nil {
		ask.Strategy = &rolloutv1.Strategy{Stages: rollout.OneFirst()}
	}
	for _, a := range w.Agents {
		ask.Steps = append(ask.Steps, &intentv1.Step{Change: &intentv1.Step_Install{
			Install: &intentv1.Install{Agent: a.Agent, Image: a.Image, AlsoUpgrade: true},
		}})
	}
	return &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: ask}}
}

// titledAgents is how many agents a title names.
const titledAgents = 5

// titleOf returns the title of the rollout, by which a later apply knows it.
func titleOf(w declare.Wanted) string {
	var agents []string
	for _, a := range w.Agents {
		agents = append(agents, a.Agent+" "+choiceText(a.Image))
	}
	if n := len(agents) - titledAgents; n > 0 {
		agents = append(agents[:titledAgents], fmt.Sprintf("%d more", n))
	}
	return w.Environment + " as declared: " + strings.Join(agents, ", ")
}

func choiceText(c *intentv1.ImageChoice) string {
	if ch, ok := c.GetBy().(*intentv1.ImageChoice_Channel); ok {
		return "of " + ch.Channel
	}
	return c.GetVersion() + c.GetImageId()
}

// startRollouts publishes the rollouts of a plan. Where records were changed before, they are planned anew.
func startRollouts(ctx context.Context, env *cli.Env, plan *declare.Plan, changed bool, s Asking) error {
	var ids []string
	for _, r := range plan.Rollouts {
		in := r.Intent
		in.Note = s.Note
		if changed {
			in.Guard = nil
		}
		id, _, err := env.Decide(ctx, in)
		if err != nil {
			return err
		}
		env.Say("environment %s: rollout %s began; to follow: garrison watch %s", r.Environment,
			listing.ShortID(env.Output.View(), id), id)
		ids = append(ids, id)
	}
	if !s.Watch {
		return nil
	}
	var worst error
	for _, id := range ids {
		if err := rollout.Follow(ctx, env, id, s.Timeout, false); err != nil {
			worst = err
		}
	}
	return worst
}
