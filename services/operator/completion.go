package operator

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// shells are the shells that a script of completion is printed for.
var shells = []string{"bash", "fish", "powershell", "zsh"}

// completionCommand returns the command completion.
func completionCommand(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:       "completion SHELL",
		Short:     "Print the completion script of a shell: bash, fish, powershell, zsh.",
		Example:   "  garrison completion bash > /etc/bash_completion.d/garrison",
		ValidArgs: shells,
		Args: func(_ *cobra.Command, a []string) error {
			known := strings.Join(shells, ", ")
			switch {
			case len(a) == 0:
				return cli.Usage("garrison completion: SHELL is missing (want %s). Try: garrison completion bash",
					known)
			case len(a) > 1 || !slices.Contains(shells, a[0]):
				return cli.Usage("garrison completion: unknown shell %q (want %s). Try: garrison completion bash",
					strings.Join(a, " "), known)
			}
			return nil
		},
		PreRunE: cli.NoTable(env),
		RunE: func(c *cobra.Command, a []string) error {
			switch root := c.Root(); a[0] {
			case "bash":
				return root.GenBashCompletionV2(env.Out, true)
			case "fish":
				return root.GenFishCompletion(env.Out, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(env.Out)
			default:
				return root.GenZshCompletion(env.Out)
			}
		},
	}
}
