package export

import (
	"context"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/inventory"
)

// Command returns the command export.
func Command(env *cli.Env) *cobra.Command {
	var file string
	c := &cobra.Command{
		Use:   "export [-o FILE]",
		Short: "Write applications, agents, environments, defaults, channels and labels as YAML for garrison apply.",
		Long: `The same inventory has the same bytes. Secrets stay sealed: only the control plane that sealed
them takes them back. Images, versions on servers and states are no part of it.`,
		Example: "  garrison export -o fleet.yaml",
		Args:    cli.Exactly(), PreRunE: cli.NoTable(env),
		RunE: func(c *cobra.Command, _ []string) error {
			return export(c.Context(), env, file)
		},
	}
	c.Flags().StringVarP(&file, "output", "o", "", "write to this `FILE`, replacing it whole (default: "+
		"standard output)")
	return c
}

func export(ctx context.Context, env *cli.Env, file string) error {
	if err := cli.CheckTarget(file); err != nil {
		return err
	}
	live, err := inventory.Read(ctx, env, declare.Kinds...)
	if err != nil {
		return err
	}
	data, err := declare.Write(declare.Objects(live))
	if err != nil {
		return err
	}
	if file == "" {
		_, err = env.Out.Write(data)
		return err
	}
	return renameio.WriteFile(file, data, 0o644)
}
