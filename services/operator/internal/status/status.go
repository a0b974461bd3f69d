// Package status builds the command garrison status: the fleet on one screen, from counts of the services.
package status

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/overview"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

// Command returns the command status.
func Command(env *cli.Env) *cobra.Command {
	var servers selector.Flags
	c := &cobra.Command{
		Use:   "status [--on SELECTOR]",
		Short: "Show the fleet on one screen, and what needs a person.",
		Long: `Show the fleet on one screen: servers by presence, agents by version, tasks under way, holds, and what
needs a person with the command that shows it. The numbers are counted at the services. With --on, tasks, the lobby and
unknown machines are left out: they belong to no selected server.`,
		Example: "  garrison status -w\n  garrison status --on env=prod -o json",
		Args:    cli.Exactly(), PreRunE: cli.NoTable(env), SuggestFor: []string{"top", "overview", "info", "summary"},
		RunE: func(c *cobra.Command, _ []string) error { return show(c.Context(), env, servers) },
	}
	servers.Add(c)
	return c
}

func show(ctx context.Context, env *cli.Env, servers selector.Flags) error {
	on, err := servers.Filter()
	if err != nil {
		return err
	}
	c, err := env.Client(ctx)
	if err != nil {
		return err
	}
	f, err := overview.Read(ctx, c, on, env.Now())
	if err != nil {
		return err
	}
	return output.ShowDocument(env.Output, f, f.Text(env.Output.Format == output.FormatWide))
}
