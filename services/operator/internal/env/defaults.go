package env

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/change"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// find returns an environment by name.
type find func(ctx context.Context, name string) (environment, error)

// defaultFlags are the flags of garrison env default.
type defaultFlags struct {
	work     work.DefaultsFlags
	values   cli.Values
	reach    environmentv1.Reach
	atOnce   bool
	none     bool
	revision uint64
}

func defaultCommand(env *cli.Env, find find, all func(context.Context) ([]environment, error)) *cobra.Command {
	f := defaultFlags{reach: environmentv1.Reach_REACH_NEW}
	c := &cobra.Command{
		Use:   "default [ENVIRONMENT [AGENT[@VERSION|@IMAGE|@CHANNEL]]]",
		Short: "Have an agent installed on servers of an environment, or list what is.",
		Long: `Have an agent installed on servers of an environment; with --none, no longer. Without an agent, list the
defaults of the environment, or of all, and on how many servers they are.

A default installs the agent where it is missing. It never upgrades, downgrades or removes one: garrison up
does that. With --reach new, it installs on servers that join the environment from now on, when they enrol or
move there; with --reach all, also on those that are in it now, and again where the agent was removed. More
than 100 of these are refused without --at-once. In waves, a rollout sets the default in the end: garrison
rollout start --install AGENT --on env=ENVIRONMENT --then-default ENVIRONMENT --canaries 3 --waves 10%,50%.

The image is chosen when a server gets the agent: a channel that moves later changes nothing. Where it
cannot be installed, the server waits, and garrison env show prints why. The values of --set configure the
agent in this environment; they win over those of the environment, and each server's own win over them.`,
		Example: "  garrison env default prod\n" +
			"  garrison env default prod node-exporter@1.10.2\n" +
			"  garrison env default prod node-exporter@1.10.2 --reach all --dry-run\n" +
			"  garrison env default prod node-exporter --none",
		Args: cli.AtMost("ENVIRONMENT", "AGENT"), PreRunE: cli.Prints(env, display.Defaults),
		RunE: func(c *cobra.Command, a []string) error {
			switch {
			case len(a) == 2 && f.none:
				return f.unset(c.Context(), env, a[0], a[1])
			case len(a) == 2:
				return f.set(c.Context(), env, find, a[0], a[1])
			case f.none:
				return cli.Usage("AGENT is missing. Try: garrison env default ENVIRONMENT AGENT --none")
			}
			return listDefaults(c.Context(), env, a, all)
		},
	}
	cli.WordVar(c.Flags(), &f.reach, "reach", "on which servers, `REACH`")
	f.values.Add(c.Flags(), "the agent in this environment")
	f.values.AddChanges(c.Flags(), "the agent in this environment")
	c.Flags().BoolVar(&f.atOnce, "at-once", false, "install on more than 100 servers at once, without waves")
	c.Flags().BoolVar(&f.none, "none", false, "end the default; what is installed stays")
	cli.RevisionVar(c.Flags(), &f.revision,
		"refuse unless the default has this `REVISION`, which env default -o wide prints")
	f.work.Add(c)
	return c
}

// set has an agent installed on servers of an environment.
func (f *defaultFlags) set(ctx context.Context, env *cli.Env, find find, name, word string) error {
	q := &registryv1.SetDefaultRequest{Environment: name, Reach: f.reach, AtOnce: f.atOnce}
	var err error
	if q.Agent, q.Image, err = change.ParseTarget(word); err != nil {
		return err
	}
	found, err := find(ctx, name)
	if err != nil {
		return err
	}
	have := found.GetDefaults()[q.Agent]
	edits, err := f.values.Change(ctx, env)
	if err != nil {
		return err
	}
	q.Metadata, q.IfRevision = edits.Apply(have.GetMetadata()), cmp.Or(f.revision, have.GetRevision())
	return setDefault(ctx, env, f.work, q, have)
}

// setDefault shows what a default would install, asks, and sets it.
func setDefault(
	ctx context.Context, env *cli.Env, f work.DefaultsFlags,
	q *registryv1.SetDefaultRequest, have *environmentv1.Default,
) error {
	agent := display.ChoiceText(q.GetAgent(), q.GetImage())
	return work.ProposeDefaults(ctx, env, f, work.Defaults{
		Ask:      &registryv1.PlanDefaultsRequest{Ask: &registryv1.PlanDefaultsRequest_Set{Set: q}},
		Question: fmt.Sprintf("Set the default %s of environment %s?", agent, q.GetEnvironment()),
		Summary:  func(r *registryv1.PlanDefaultsResponse) string { return setSummary(q, have, r) },
		Do: func(ctx context.Context, sum []byte) error {
			q = proto.CloneOf(q)
			q.PlanSha256 = sum
			r, err := cli.Call[*registryv1.SetDefaultResponse](ctx, env, q)
			if err != nil {
				return err
			}
			row := &registryv1.DefaultRow{Environment: q.GetEnvironment(), Agent: q.GetAgent(), Default: r.GetDefault()}
			return cli.Changed(env, display.DefaultSettings, row,
				"default %s of environment %s set; to follow: garrison env show %s", agent, q.GetEnvironment(),
				q.GetEnvironment())
		},
	})
}

// setSummary describes what setting a default would do.
func setSummary(
	q *registryv1.SetDefaultRequest, have *environmentv1.Default, r *registryv1.PlanDefaultsResponse,
) string {
	now, waiting := work.Installs(r.GetPlans())
	text := fmt.Sprintf("default %s for %s of environment %s", display.ChoiceText(q.GetAgent(), q.GetImage()),
		display.ReachText(q.GetReach()), q.GetEnvironment())
	if have != nil {
		text += fmt.Sprintf(", which was %s for %s", display.ChoiceText(q.GetAgent(), have.GetImage()),
			display.ReachText(have.GetReach()))
	}
	return text + fmt.Sprintf(": of %s, %d would get the agent now, %d would wait, %d have it and stay as they are, "+
		"%d stay without it", listing.Plural(int(r.GetServers()), "server"), now, waiting,
		r.GetPresent(), r.GetBeyond())
}

// unset ends a default.
func (f *defaultFlags) unset(ctx context.Context, env *cli.Env, name, agent string) error {
	for what, name := range map[string]string{"environment": name, "agent": agent} {
		if err := ident.CheckName(what, name); err != nil {
			return cli.Usage("%v", err)
		}
	}
	ask := fmt.Sprintf("End the default %s of environment %s?", agent, name)
	if err := env.Confirm(ctx, f.work.Yes, ask); err != nil {
		return err
	}
	_, err := cli.Call[*registryv1.UnsetDefaultResponse](ctx, env,
		&registryv1.UnsetDefaultRequest{Environment: name, Agent: agent, IfRevision: f.revision})
	if err != nil {
		return err
	}
	env.Say("environment %s no longer has a default for %s; no agent was removed", name, agent)
	return nil
}

// listDefaults lists the defaults of some environments, or of all without any.
func listDefaults(
	ctx context.Context, env *cli.Env, names []string, all func(context.Context) ([]environment, error),
) error {
	if len(names) == 0 {
		found, err := all(ctx)
		if err != nil {
			return err
		}
		for _, e := range found {
			if len(e.GetDefaults()) > 0 {
				names = append(names, e.GetName())
			}
		}
	}
	whole := &registryv1.ListDefaultsResponse{}
	for _, name := range names {
		r, err := defaultsOf(ctx, env, name)
		if err != nil {
			return err
		}
		whole.Defaults = append(whole.Defaults, r.GetDefaults()...)
		whole.Members += r.GetMembers()
	}
	return output.Show(env.Output, display.Defaults, whole, whole.Defaults)
}

func defaultsOf(ctx context.Context, env *cli.Env, environment string) (*registryv1.ListDefaultsResponse, error) {
	return cli.Call[*registryv1.ListDefaultsResponse](ctx, env,
		&registryv1.ListDefaultsRequest{Environment: environment})
}

// showDefaults returns the lines about the defaults of an environment.
func showDefaults(ctx context.Context, env *cli.Env, e environment) ([][2]string, error) {
	if len(e.GetDefaults()) == 0 {
		return nil, nil
	}
	r, err := defaultsOf(ctx, env, e.GetName())
	if err != nil {
		return nil, err
	}
	out := [][2]string{{"SERVERS", fmt.Sprint(r.GetMembers())}}
	for _, row := range r.GetDefaults() {
		out = append(out, [2]string{"DEFAULT", strings.Join(display.DefaultLines(row), "\n")})
	}
	return out, nil
}
