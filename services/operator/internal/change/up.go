package change

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// Waves carries out an upgrade in waves, when its flags are given.
type Waves interface {
	Add(c *cobra.Command)
	Given(c *cobra.Command) bool
	Upgrade(ctx context.Context, q *registryv1.PlanRolloutRequest, w work.Flags) error
}

// UpCommand returns the command up.
func UpCommand(env *cli.Env, waves Waves) *cobra.Command {
	var w work.Flags
	var u up
	c := &cobra.Command{
		Use:   "up [AGENT[@VERSION|@IMAGE|@CHANNEL]]… [--all] [--exclude AGENT]… --on SELECTOR",
		Short: "Upgrade agents: plan, confirm, apply and watch.",
		Long: `Plan an upgrade, show it, ask, do it, and watch it.

Without a version, the highest one of the channel is planned: of the server's environment, or the default one. It
never lowers a version; name it for that. One that failed on a server is tried there again only when it is named and
-m says why. What is done is what was shown: when the fleet changes in between, nothing is done, and the exit code is 8.

With --batch, --stop-after or --soak the upgrade is a rollout, which halts by itself and can be undone as a
whole; garrison rollout start has more gates. More than 100 servers need --batch or --at-once. With --dry-run,
the exit code is 3 when a server would change, and 0 when none would.`,
		Aliases: []string{"upgrade"}, SuggestFor: []string{"update", "downgrade"},
		Example: "  garrison up node-exporter --on all --dry-run\n" +
			"  garrison up node-exporter@1.9.1 --on all            to this version, also downwards\n" +
			"  garrison up node-exporter --on all --batch 10% --stop-after 1\n" +
			"  garrison up --all --exclude node-exporter --on env=prod",
		RunE: func(c *cobra.Command, a []string) error {
			on, err := w.Selector()
			if err != nil {
				return err
			}
			if err := u.parse(a); err != nil {
				return err
			}
			if waves.Given(c) {
				return waves.Upgrade(c.Context(), u.rollout(on, w), w)
			}
			p := work.Proposal{Verb: topology.VerbUpgrade, Question: "Upgrade", Asks: u.asks(on), Differs: true}
			return work.Propose(c.Context(), env, w, p)
		},
	}
	w.Add(c, true)
	w.AddYes(c)
	waves.Add(c)
	c.Flags().BoolVar(&u.all, "all", false, "upgrade every agent on the servers")
	cli.NamesVar(c.Flags(), &u.exclude, "exclude", cli.Name("agent"), "with --all: exclude this `AGENT`; repeatable")
	return c
}

// up is a requested upgrade.
type up struct {
	targets []target
	all     bool
	exclude []string
}

func (u *up) parse(words []string) error {
	switch {
	case u.all && len(words) > 0:
		return cli.Usage("--all and the agent %s exclude each other", words[0])
	case !u.all && len(words) == 0:
		return cli.Usage("AGENT is missing. Try: garrison up AGENT --on SELECTOR, or garrison up --all --on SELECTOR")
	case !u.all && len(u.exclude) > 0:
		return cli.Usage("--exclude requires --all")
	}
	for _, text := range words {
		t, err := parseTarget(text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(u.targets, func(o target) bool { return o.agent == t.agent }) {
			return cli.Usage("%s is named twice; name it once, with one image", t.agent)
		}
		u.targets = append(u.targets, t)
	}
	return nil
}

// asks returns the request for one plan of every agent, or one request for each named agent.
func (u *up) asks(on *intentv1.Selector) []*registryv1.PlanIntentRequest {
	ask := func(t target) *intentv1.Intent {
		up := &intentv1.Upgrade{Agent: t.agent, Image: t.image, On: on}
		return &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: up}}
	}
	if u.all {
		return []*registryv1.PlanIntentRequest{{Intent: ask(target{}), EveryAgent: true, Exclude: u.exclude}}
	}
	var out []*registryv1.PlanIntentRequest
	for _, t := range u.targets {
		out = append(out, &registryv1.PlanIntentRequest{Intent: ask(t)})
	}
	return out
}

// rollout returns the request for the plan of the upgrade as a rollout, without its strategy.
func (u *up) rollout(on *intentv1.Selector, w work.Flags) *registryv1.PlanRolloutRequest {
	ask := &intentv1.Rollout{On: on}
	for _, t := range u.targets {
		ask.Steps = append(ask.Steps, &intentv1.Step{Change: &intentv1.Step_Upgrade{
			Upgrade: &intentv1.Upgrade{Agent: t.agent, Image: t.image},
		}})
	}
	return &registryv1.PlanRolloutRequest{
		Intent: &intentv1.Intent{
			Ask: &intentv1.Intent_Rollout{Rollout: ask}, Strict: w.Strict, Note: w.Note, AtOnce: w.AtOnce,
		},
		EveryAgent: u.all, Exclude: u.exclude,
	}
}
