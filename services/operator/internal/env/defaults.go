package env

import (
	"cmp"
	"context"
	"fmt"
	"slices"
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

func defaultCommands(env *cli.Env, find find, all func(context.Context) ([]environment, error)) *cobra.Command {
	return cli.Group("default", "Say which agents the servers of an environment get.",
		defaultSetCommand(env, find), defaultUnsetCommand(env), defaultListCommand(env, all))
}

func defaultSetCommand(env *cli.Env, find find) *cobra.Command {
	var f work.DefaultsFlags
	var values cli.Values
	reach, atOnce, revision := environmentv1.Reach_REACH_NEW, false, uint64(0)
	c := &cobra.Command{
		Use:   "set ENVIRONMENT AGENT[@VERSION|@IMAGE|@CHANNEL]",
		Short: "Have an agent installed on servers of an environment.",
		Long: `Have an agent installed on servers of an environment.

A default installs the agent where it is missing. It never upgrades, downgrades or removes one: garrison up
does that. With --reach new, it installs on servers that join the environment from now on, when they enrol or
move there; with --reach all, also on those that are in it now, and again where the agent was removed. More
than 100 of these are refused without --at-once. In waves, a rollout sets the default in the end: garrison
rollout start --install AGENT --on env=ENVIRONMENT --then-default ENVIRONMENT --canaries 3 --waves 10%,50%.

The image is chosen when a server gets the agent: a channel that moves later changes nothing. Where it
cannot be installed, the server waits, and garrison env show prints why. The values of --set configure the
agent in this environment; they win over those of the environment, and each server's own win over them.`,
		Example: "  garrison env default set prod node-exporter@1.10.2\n" +
			"  garrison env default set prod node-exporter@1.10.2 --reach all --dry-run",
		Args: cli.Exactly("ENVIRONMENT", "AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			q := &registryv1.SetDefaultRequest{Environment: a[0], Reach: reach, AtOnce: atOnce}
			var err error
			if q.Agent, q.Image, err = change.ParseTarget(a[1]); err != nil {
				return err
			}
			found, err := find(c.Context(), a[0])
			if err != nil {
				return err
			}
			have := found.GetDefaults()[q.Agent]
			edits, err := values.Change(c.Context(), env)
			if err != nil {
				return err
			}
			q.Metadata, q.IfRevision = edits.Apply(have.GetMetadata()), cmp.Or(revision, have.GetRevision())
			return setDefault(c.Context(), env, f, q, have)
		},
	}
	cli.WordVar(c.Flags(), &reach, "reach", "on which servers, `REACH`")
	values.Add(c.Flags(), "the agent in this environment")
	values.AddChanges(c.Flags(), "the agent in this environment")
	c.Flags().BoolVar(&atOnce, "at-once", false, "install on more than 100 servers at once, without waves")
	defaultRevision(c, &revision)
	f.Add(c)
	return c
}

// defaultRevision adds the flag for the revision of a default that a change is based on.
func defaultRevision(c *cobra.Command, to *uint64) {
	cli.RevisionVar(c.Flags(), to,
		"refuse unless the default has this `REVISION`, which env default list -o wide prints")
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

func defaultUnsetCommand(env *cli.Env) *cobra.Command {
	var revision uint64
	c := &cobra.Command{
		Use:     "unset ENVIRONMENT AGENT",
		Example: "  garrison env default unset prod node-exporter",
		Short:   "Have an agent no longer installed on servers of an environment; what is installed stays.",
		Args:    cli.Exactly("ENVIRONMENT", "AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			for what, name := range map[string]string{"environment": a[0], "agent": a[1]} {
				if err := ident.CheckName(what, name); err != nil {
					return cli.Usage("%v", err)
				}
			}
			_, err := cli.Call[*registryv1.UnsetDefaultResponse](c.Context(), env,
				&registryv1.UnsetDefaultRequest{Environment: a[0], Agent: a[1], IfRevision: revision})
			if err != nil {
				return err
			}
			env.Say("environment %s no longer has a default for %s; no agent was removed", a[0], a[1])
			return nil
		},
	}
	defaultRevision(c, &revision)
	return c
}

func defaultListCommand(env *cli.Env, all func(context.Context) ([]environment, error)) *cobra.Command {
	return &cobra.Command{
		Use:     "list [ENVIRONMENT]",
		Example: "  garrison env default list prod",
		Short:   "List the defaults of an environment, or of all, and on how many servers they are.",
		Args:    cli.AtMost("ENVIRONMENT"),
		RunE: func(c *cobra.Command, a []string) error {
			names := slices.Clone(a)
			if len(a) == 0 {
				found, err := all(c.Context())
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
				r, err := defaultsOf(c.Context(), env, name)
				if err != nil {
					return err
				}
				whole.Defaults = append(whole.Defaults, r.GetDefaults()...)
				whole.Members += r.GetMembers()
			}
			return output.Show(env.Output, display.Defaults, whole, whole.Defaults)
		},
	}
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
