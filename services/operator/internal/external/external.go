// Package external is the commands about instances that Garrison tracks and does not run: agent want says which version
// they should have, and instance report is how they get into the inventory.
package external

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/nearest"
	"github.com/garrison-fleet/garrison/pkg/record"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

// WantCommand returns the command agent want.
func WantCommand(env *cli.Env) *cobra.Command {
	var environment, name string
	var unset bool
	c := &cobra.Command{
		Use:        "want AGENT [VERSION]",
		SuggestFor: []string{"set", "declare", "up"},
		Short:      "Say which version external instances should have.",
		Long: `Say which version the instances of an agent of kind external should have: all of them, those on servers
of an environment, or one. The most specific one counts: by name, by environment, then that of all. garrison check lists
those that have another version; nothing changes them, since Garrison does not run them. The versions are fields of the
agent's record, so garrison export and apply have them too, under the key wanted.`,
		Example: "  garrison agent want platform 20260101T000000Z\n" +
			"  garrison agent want platform 20251001T000000Z --env canary\n" +
			"  garrison agent want vm --unset --name 54bd4c3f",
		Args: cli.AtMost("AGENT", "VERSION"),
		RunE: func(c *cobra.Command, a []string) error {
			switch {
			case len(a) == 0 || (len(a) == 2) == unset:
				return cli.Usage("want AGENT VERSION, or AGENT --unset. Try: %s --help", c.CommandPath())
			case environment != "" && name != "":
				return cli.Usage("--env and --name exclude each other")
			case name == "all" || strings.HasPrefix(name, "env="):
				return cli.Usage("--name %s would mean more than one instance. Try: no --name for all, or --env", name)
			}
			key := "all"
			switch {
			case environment != "":
				if err := exists(c.Context(), env, environment); err != nil && !unset {
					return err
				}
				key = "env=" + environment
			case name != "":
				key = name
			}
			return want(c.Context(), env, a, key)
		},
	}
	cli.TextVar(c.Flags(), &environment, "env", cli.Name("environment"), "only of instances on servers of this "+
		"`ENVIRONMENT`")
	cli.TextVar(c.Flags(), &name, "name", cli.NotEmpty("name"), "only of the instance of this `NAME`")
	c.Flags().BoolVar(&unset, "unset", false, "no longer want a version there")
	return c
}

// exists returns the registry's refusal of an environment that it does not know. An agent's record may name one that is
// still to come, as in a file that declares both.
func exists(ctx context.Context, env *cli.Env, environment string) error {
	_, err := cli.Call[*registryv1.ListServersResponse](ctx, env, &registryv1.ListServersRequest{
		Environment: environment, Page: &apiv1.Page{Limit: 1},
	})
	return err
}

// want sets or unsets the version that is wanted at a key, on the revision that was read.
func want(ctx context.Context, env *cli.Env, a []string, key string) error {
	found, err := agentNamed(ctx, env, a[0])
	if err != nil {
		return err
	}
	next := proto.CloneOf(found)
	if next.Wanted == nil {
		next.Wanted = map[string]string{}
	}
	if len(a) == 2 {
		next.Wanted[key] = a[1]
	} else {
		delete(next.Wanted, key)
	}
	if maps.Equal(found.GetWanted(), next.Wanted) {
		env.Say("nothing to do")
		return nil
	}
	if _, _, err := cli.Put[*agentv1.Agent](ctx, env, record.Change(next)); err != nil {
		return err
	}
	if len(a) == 2 {
		env.Say("agent %s: version %s is wanted of %s", a[0], a[1], key)
	} else {
		env.Say("agent %s: no version is wanted of %s", a[0], key)
	}
	return nil
}

// agentNamed returns the record of an agent.
func agentNamed(ctx context.Context, env *cli.Env, name string) (*agentv1.Agent, error) {
	all, err := fleet.Agents(ctx, env)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, a := range all {
		if a.GetName() == name {
			return a, nil
		}
		names[a.GetName()] = true
	}
	return nil, cli.Refuse(fault.NotFound, &apiv1.Refusal{
		Code: code.UnknownAgent, Message: fmt.Sprintf("no agent %q (%d searched)", name, len(names)),
		Nearest: nearest.Name(name, maps.Keys(names)), Try: "garrison agent list",
	})
}
