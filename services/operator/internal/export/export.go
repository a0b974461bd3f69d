// Package export builds the command garrison export, which writes the inventory as a file for garrison apply.
package export

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Command returns the command export.
func Command(env *cli.Env) *cobra.Command {
	var file string
	var wanted bool
	c := &cobra.Command{
		Use:   "export [--out FILE]",
		Short: "Write applications, agents, environments, defaults, channels and labels as YAML for garrison apply.",
		Long: `The same inventory has the same bytes. Secrets stay sealed: only the control plane that sealed
them takes them back. Images and states are no part of it. With --wanted, each environment has the key wanted: the
agents that all of its servers want in the same version. A note names the others.`,
		Example: "  garrison export --out fleet.yaml\n  garrison export --wanted | garrison apply -f - --dry-run",
		Args:    cli.Exactly(), PreRunE: cli.NoTable(env),
		RunE: func(c *cobra.Command, _ []string) error {
			if err := onlyYAML(c, env.Output.Format); err != nil {
				return err
			}
			return export(c.Context(), env, file, wanted)
		},
	}
	cli.OutVar(c.Flags(), &file, "write to this `FILE`, replacing it whole (default: standard output)")
	c.Flags().BoolVar(&wanted, "wanted", false, "also the versions that all servers of an environment want alike")
	return c
}

// onlyYAML refuses flags that would be taken for another form of the export.
func onlyYAML(c *cobra.Command, format string) error {
	if format != output.FormatTable && format != output.FormatYAML {
		return cli.Usage("-o %[1]s does not apply: the export is YAML. Try: garrison export | yq -o %[1]s", format)
	}
	if c.Flags().Changed("jq") {
		return cli.Usage("--jq does not apply: the export is YAML. Try: garrison export | yq EXPR")
	}
	return nil
}

func export(ctx context.Context, env *cli.Env, file string, wanted bool) error {
	if err := cli.CheckTarget(file); err != nil {
		return err
	}
	live, err := inventory.Read(ctx, env, declare.Kinds...)
	if err != nil {
		return err
	}
	set := &declare.Set{Objects: declare.Objects(live)}
	if wanted {
		if err := addWanted(ctx, env, set); err != nil {
			return err
		}
	}
	data, err := declare.Write(set)
	if err != nil {
		return err
	}
	if file == "" {
		_, err = env.Out.Write(data)
		return err
	}
	if err := renameio.WriteFile(file, data, 0o644); err != nil {
		return err
	}
	cli.SayWritten(env, file)
	return nil
}

// mostGroups is how many groups a count returns at most.
const mostGroups = 1000

// addWanted adds to a set what all servers of each environment want alike, and says what they do not.
func addWanted(ctx context.Context, env *cli.Env, set *declare.Set) error {
	for _, o := range set.Objects {
		if o.Kind != declare.Environments {
			continue
		}
		agents, err := wantedOf(ctx, env, o.Name)
		if err != nil {
			return err
		}
		if len(agents) > 0 {
			set.Wanted = append(set.Wanted, declare.Wanted{Environment: o.Name, Agents: agents})
		}
	}
	return nil
}

// wantedOf returns the agents that all servers of an environment want in the same version, by name.
func wantedOf(ctx context.Context, env *cli.Env, environment string) (out []declare.WantedAgent, err error) {
	servers, err := cli.Call[*registryv1.CountServersResponse](ctx, env, &registryv1.CountServersRequest{
		Filter: &registryv1.ListServersRequest{Environment: environment, Life: serverv1.Life_LIFE_ALIVE},
	})
	if err != nil {
		return nil, err
	}
	r, err := cli.Call[*registryv1.CountInstancesResponse](ctx, env, &registryv1.CountInstancesRequest{
		Filter: &registryv1.ListInstancesRequest{Environment: environment}, By: []string{"agent", "wanted-version"},
		Top: mostGroups,
	})
	if err != nil {
		return nil, err
	}
	said := map[string]bool{}
	for _, g := range r.GetCounts().GetGroups() {
		agent, version := g.GetValues()[0], g.GetValues()[1]
		switch {
		case version == "": // it leaves
		case g.GetCount() == servers.GetCounts().GetTotal():
			choice := &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
			out = append(out, declare.WantedAgent{Agent: agent, Image: choice})
		case !said[agent]:
			said[agent] = true
			env.Say("note: %s is not written: the servers of environment %s do not all want the same version", agent,
				environment)
		}
	}
	slices.SortFunc(out, func(a, b declare.WantedAgent) int { return cmp.Compare(a.Agent, b.Agent) })
	return out, nil
}
