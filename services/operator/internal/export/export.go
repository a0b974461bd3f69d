// Package export builds the command garrison export, which writes the inventory as a file for garrison apply.
package export

import (
	"context"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

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
