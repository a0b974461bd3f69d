package instance

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/change"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Commands returns the command instance with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("instance", "Show which agents are wanted and found on which servers.", listCommand(env),
		showCommand(env), change.AdoptCommand(env), change.ReleaseCommand(env))
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
					Try:     "garrison instance list --server " + a[0],
				})
			}
			have := rows[0].GetInstance()
			return output.ShowOne(env.Output, env.Output.View(), display.Instances, rows[0],
				[2]string{"ORIGIN", have.GetOrigin()},
				[2]string{"BY-HAND", display.ByHand(rows[0])},
				[2]string{"ADOPTED", display.AdoptionLine(have.GetAdoption())},
				[2]string{"METADATA", output.Lines(have.GetConfiguration().GetMetadata())},
				[2]string{"OWN", output.Lines(have.GetConfiguration().GetOwn())},
				[2]string{"OWN-REVISION", fmt.Sprint(have.GetOwnChange().GetRevision())},
				[2]string{"OWN-CHANGED-BY", have.GetOwnChange().GetChangedBy()},
				[2]string{"CONFIGURATION", fmt.Sprintf("%.8x", have.GetConfiguration().GetDigest())},
				[2]string{"FOUND-CONFIGURATION", fmt.Sprintf("%.8x", have.GetObservedConfigurationDigest())})
		},
	}
}
