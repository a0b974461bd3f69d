// Package change builds the commands that change agents on servers: install, up, configure, remove, undo, and those
// of adopted agents.
package change

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/manifest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// Waves carries out changes of agents as rollouts.
type Waves interface {
	Add(c *cobra.Command)        // the flags with which a change is a rollout
	Given(c *cobra.Command) bool // whether one of them is

	// Carry carries out a change whose flags are given, or one that was planned as intents and is wide.
	Carry(ctx context.Context, q *registryv1.PlanRolloutRequest, w work.Flags, wide *work.Planned) error

	AddUndo(c *cobra.Command)        // the flags of the waves in which an undo goes
	GivenUndo(c *cobra.Command) bool // whether one of them is
	Undo(ctx context.Context, id string, w work.Flags) error
}

// verb is what a command does to agents.
type verb struct {
	name, question string
	intent         func(target, *intentv1.Selector) *intentv1.Intent
	step           func(target) *intentv1.Step
}

var installs = verb{
	topology.VerbInstall, "Install",
	func(t target, on *intentv1.Selector) *intentv1.Intent {
		ask := &intentv1.Install{Agent: t.agent, Image: t.image, On: on}
		return &intentv1.Intent{Ask: &intentv1.Intent_Install{Install: ask}}
	},
	func(t target) *intentv1.Step {
		ask := &intentv1.Install{Agent: t.agent, Image: t.image}
		return &intentv1.Step{Change: &intentv1.Step_Install{Install: ask}}
	},
}

var upgrades = verb{
	topology.VerbUpgrade, "Upgrade",
	func(t target, on *intentv1.Selector) *intentv1.Intent {
		ask := &intentv1.Upgrade{Agent: t.agent, Image: t.image, On: on, Again: t.again}
		return &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: ask}}
	},
	func(t target) *intentv1.Step {
		ask := &intentv1.Upgrade{Agent: t.agent, Image: t.image, Again: t.again}
		return &intentv1.Step{Change: &intentv1.Step_Upgrade{Upgrade: ask}}
	},
}

var removes = verb{
	topology.VerbRemove, "Remove",
	func(t target, on *intentv1.Selector) *intentv1.Intent {
		return &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: t.agent, On: on}}}
	},
	func(t target) *intentv1.Step {
		return &intentv1.Step{Change: &intentv1.Step_Remove{Remove: &intentv1.Remove{Agent: t.agent}}}
	},
}

// agents are the agents that a command changes.
type agents struct {
	verb
	targets []target
	all     bool // every agent on the servers, except the excluded ones
	again   bool // also where the image is the same
	exclude []string
}

// parse reads the agents. Each may be named once.
func (q *agents) parse(words []string) error {
	for n, text := range words {
		if n > 0 && versionLike.MatchString(text) {
			return cli.Usage("%q is not an agent. Try: garrison %s %s@%s", text, q.name, words[n-1], text)
		}
		t, err := parseTarget(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(q.targets, func(o target) bool { return o.agent == t.agent }) {
			return cli.Usage("%s is named twice; name it once, with one image", t.agent)
		}
		t.again = q.again
		q.targets = append(q.targets, t)
	}
	return nil
}

// parseNames reads agents that are named without an image.
func (q *agents) parseNames(words []string) error {
	for _, name := range words {
		if err := ident.CheckName("agent", name); err != nil {
			return cli.Usage("%v", err)
		}
	}
	q.question += " " + strings.Join(words, ", ")
	return q.parse(words)
}

// do plans the change, confirms it, and carries it out: as a rollout when the flags of one are given, or when more
// servers than a handful would change, and as an intent for each agent otherwise.
func (q *agents) do(c *cobra.Command, env *cli.Env, w work.Flags, waves Waves) error {
	on, err := q.on(c, w)
	if err != nil {
		return err
	}
	rollout := func(ctx context.Context, wide *work.Planned) error {
		return waves.Carry(ctx, q.rollout(on, w), w, wide)
	}
	if waves.Given(c) {
		return rollout(c.Context(), nil)
	}
	return work.Propose(c.Context(), env, w, work.Proposal{
		Verb: q.name, Question: q.question, Asks: q.asks(on), Wide: rollout,
	})
}

// on returns the selector. Who forgot --on may have named the server as an agent.
func (q *agents) on(c *cobra.Command, w work.Flags) (*intentv1.Selector, error) {
	if last := len(q.targets) - 1; last > 0 && !c.Flags().Changed("on") {
		server := q.targets[last].agent
		return nil, cli.Usage("--on SELECTOR is missing, and %s is read as an agent. Try: garrison %s %s --on %s",
			server, c.Name(), q.targets[0].agent, server)
	}
	return w.Selector()
}

// asks returns the request for one plan of every agent, or one request for each named agent.
func (q *agents) asks(on *intentv1.Selector) (out []*registryv1.PlanIntentRequest) {
	if q.all {
		return []*registryv1.PlanIntentRequest{{
			Intent: q.intent(target{}, on), EveryAgent: true, Exclude: q.exclude,
		}}
	}
	for _, t := range q.targets {
		out = append(out, &registryv1.PlanIntentRequest{Intent: q.intent(t, on)})
	}
	return out
}

// rollout returns the request for the plan of the change as a rollout, without its strategy.
func (q *agents) rollout(on *intentv1.Selector, w work.Flags) *registryv1.PlanRolloutRequest {
	var steps []*intentv1.Step
	for _, t := range q.targets {
		steps = append(steps, q.step(t))
	}
	ask := rolloutOf(on, w, steps...)
	ask.EveryAgent, ask.Exclude = q.all, q.exclude
	return ask
}

// rolloutOf returns the request for the plan of a rollout without a strategy.
func rolloutOf(on *intentv1.Selector, w work.Flags, steps ...*intentv1.Step) *registryv1.PlanRolloutRequest {
	return &registryv1.PlanRolloutRequest{Intent: &intentv1.Intent{
		Ask:    &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{On: on, Steps: steps}},
		Strict: w.Strict, Note: w.Note, AtOnce: w.AtOnce,
	}}
}

// target is an agent and the choice of its image.
type target struct {
	agent string
	image *intentv1.ImageChoice // nil means the newest of the server's channel
	said  string                // the text after the @
	again bool                  // also where the image is the same
}

// ParseTarget parses AGENT, AGENT@VERSION, AGENT@IMAGE-UUID or AGENT@CHANNEL. A nil choice means the newest image of
// the server's channel.
func ParseTarget(text string) (agent string, image *intentv1.ImageChoice, err error) {
	t, err := parseTarget(text)
	return t.agent, t.image, err
}

var versionLike = regexp.MustCompile(`^v?[0-9]+\.`)

// parseTarget parses AGENT, AGENT@VERSION, AGENT@IMAGE-UUID or AGENT@CHANNEL.
func parseTarget(text string) (target, error) {
	agent, said, at := strings.Cut(text, "@")
	t := target{agent: agent, said: said}
	if name, tag, colon := strings.Cut(text, ":"); colon && !at && ident.CheckName("agent", name) == nil {
		return t, cli.Usage("%q is not an agent. Try: %s@%s", text, name, tag)
	}
	if err := ident.CheckName("agent", agent); err != nil {
		return t, cli.Usage("%v", err)
	}
	switch {
	case !at:
	case said == "":
		return t, cli.Usage("%q: nothing follows the @. Try: %s@VERSION, %s@IMAGE, %s@CHANNEL", text, agent, agent,
			agent)
	case ident.IsUUID(said):
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: said}}
	case versionLike.MatchString(said):
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: said}}
	case ident.CheckName("channel", said) == nil:
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: said}}
	case manifest.CheckVersion(said) == nil:
		t.image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: said}}
	default:
		return t, cli.Usage("%q is not a version, the id of an image or a channel", said)
	}
	return t, nil
}
