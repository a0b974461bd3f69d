// Package instance builds the commands of garrison instance.
package instance

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/listing"
	"github.com/garrison-fleet/garrison/services/operator/internal/change"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/external"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// Commands returns the command instance with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("instance", "Show which agents are wanted and found on which servers.", listCommand(env),
		showCommand(env), change.AdoptCommand(env), change.ReleaseCommand(env), external.ReportCommand(env))
}

// serverAndAgent splits SERVER/AGENT, which -o name of a list prints.
func serverAndAgent(a []string) []string {
	if len(a) == 1 {
		return strings.SplitN(a[0], "/", 2)
	}
	return a
}

func showCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:     "show SERVER AGENT | SERVER/AGENT",
		Example: "  garrison instance show web-1 beacon",
		Short:   "Show all fields of an instance and its configuration.",
		Args: func(c *cobra.Command, a []string) error {
			return cli.Exactly("SERVER", "AGENT")(c, serverAndAgent(a))
		},
		RunE: func(c *cobra.Command, a []string) error {
			a = serverAndAgent(a)
			q := &registryv1.ListInstancesRequest{Server: a[0], Agent: a[1], WithExecutors: true}
			rows, err := fleet.Instances(c.Context(), env, q)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				return cli.Refuse(fault.NotFound, &apiv1.Refusal{
					Code:    code.NoInstances,
					Message: fmt.Sprintf("server %q has no instance of agent %q", a[0], a[1]),
					Try:     "garrison instance list --on " + a[0],
				})
			}
			have := rows[0].GetInstance()
			return output.ShowOne(env.Output, env.Output.View(), display.Instances, rows[0],
				[2]string{"ORIGIN", have.GetOrigin()},
				[2]string{"BY-HAND", display.ByHand(rows[0])},
				[2]string{"ADOPTED", display.AdoptionLine(have.GetAdoption())},
				[2]string{"METADATA", listing.Lines(have.GetConfiguration().GetMetadata())},
				[2]string{"OWN", listing.Lines(have.GetConfiguration().GetOwn())},
				[2]string{"OWN-REVISION", fmt.Sprint(have.GetOwnChange().GetRevision())},
				[2]string{"OWN-CHANGED-BY", have.GetOwnChange().GetChangedBy()},
				[2]string{"CONFIGURATION", fmt.Sprintf("%.8x", have.GetConfiguration().GetDigest())},
				[2]string{"FOUND-CONFIGURATION", fmt.Sprintf("%.8x", have.GetObservedConfigurationDigest())})
		},
	}
}

// filter is the flags that select instances.
type filter struct {
	on          selector.Flags
	unconfirmed time.Duration
	q           *registryv1.ListInstancesRequest
}

// add adds the flags.
func (f *filter) add(c *cobra.Command) {
	flags := c.Flags()
	f.on.Add(c)
	cli.TextVar(flags, &f.q.Agent, "agent", cli.Name("agent"), "only of this `AGENT`")
	cli.TextVar(flags, &f.q.ImageId, "image", cli.IDPrefix("an image"),
		"only those that want or have this image, by `ID` or a prefix of it that only one has")
	cli.TextVar(flags, &f.q.Version, "version", cli.NotEmpty("version"),
		"only those that want or have an image of this `VERSION`")
	cli.WordVar(flags, &f.q.Kind, "kind", "only of agents of this `KIND`")
	cli.TextVar(flags, &f.q.Application, "app", cli.Name("application"), "only of agents of this `APPLICATION`")
	f.addStates(flags)
}

// addStates adds the flags about what is wanted and observed.
func (f *filter) addStates(flags *pflag.FlagSet) {
	cli.WordVar(flags, &f.q.State, "state", "only those in this `STATE`")
	cli.WordVar(flags, &f.q.Health, "health", "only those in this `HEALTH`")
	flags.BoolVar(&f.q.NotAtWanted, "not-at-wanted", false,
		"only those with another image than the wanted one, without it, or with one while none is wanted")
	cli.UnconfirmedVar(flags, &f.unconfirmed, "those that their server")
	flags.BoolVar(&f.q.Stale, "stale", false, "only those of kind external that no report listed in time")
}

// request returns the request of the flags and the argument AGENT.
func (f *filter) request(args []string) (*registryv1.ListInstancesRequest, error) {
	if len(args) > 0 {
		f.q.Agent = args[0]
	}
	var err error
	if f.q.On, err = f.on.Filter(); err != nil {
		return nil, err
	}
	f.q.UnconfirmedFor, f.q.WithExternal = cli.Within(f.unconfirmed), true
	f.q.WithExecutors = f.q.Kind == agentv1.Kind_KIND_SELF || f.q.Agent == "executor"
	return f.q, nil
}

func listCommand(env *cli.Env) *cobra.Command {
	var page cli.PageFlags
	var counts cli.CountFlags
	f := filter{q: &registryv1.ListInstancesRequest{}}
	c := &cobra.Command{
		Use: "list [AGENT]",
		Example: "  garrison instance list beacon --on env=prod --not-at-wanted\n" +
			"  garrison instance list --unconfirmed 10m --state converged\n" +
			"  garrison instance list --count-by version,env",
		Short: "List instances, or count them; all filters must match.", Args: cli.AtMost("AGENT"),
		RunE: func(c *cobra.Command, a []string) error {
			q, err := f.request(a)
			if err != nil {
				return err
			}
			if asked, err := counts.Asked(c); err != nil {
				return err
			} else if asked {
				return cli.Count[*registryv1.CountInstancesResponse](c.Context(), env,
					&registryv1.CountInstancesRequest{Filter: q, By: counts.By, Top: counts.Groups()})
			}
			return cli.List(c.Context(), env, page, display.Instances,
				cli.Ask[*registryv1.ListInstancesResponse](env, q))
		},
	}
	page.Add(c, 0)
	f.add(c)
	counts.Add(c, "agent, version, image, wanted-version, wanted-image, way-back, drift, kind, app, state, "+
		"health, server, or a field of the server: env, presence, platform, label.NAME, and the others of --on")
	return c
}
