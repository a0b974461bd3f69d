package restore

import (
	"github.com/spf13/cobra"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/selector"
)

type (
	loss          = *registryv1.ServerLoss
	restoreStatus = *registryv1.GetRestoreStatusResponse
)

// Commands returns the command restore with its verbs.
func Commands(env *cli.Env) *cobra.Command {
	return cli.Group("restore", "Reconcile servers after the restore of a backup.",
		statusCommand(env), acceptCommand(env))
}

// optionalSelector parses the values of --on; without one it returns nil, which selects every server.
func optionalSelector(on []string) (*intentv1.Selector, error) {
	if len(on) == 0 {
		return nil, nil
	}
	return selector.Parse(on)
}
