package operator

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// addCompletion adds the command completion, which refuses an unknown shell with the names of those that it knows.
func addCompletion(root *cobra.Command) {
	root.SetCompletionCommandGroupID("self")
	root.InitDefaultCompletionCmd()
	c, _, err := root.Find([]string{"completion"})
	if err != nil {
		return
	}
	var shells []string
	for _, shell := range c.Commands() {
		shells = append(shells, shell.Name())
		shell.Short += "."
		shell.Example = "  source <(garrison completion " + shell.Name() + ")"
		if shell.Name() == "powershell" {
			shell.Example = "  garrison completion powershell | Out-String | Invoke-Expression"
		}
	}
	known := strings.Join(shells, ", ")
	c.Use, c.Short = "completion SHELL", "Print the completion script of a shell: "+known+"."
	c.Args = cobra.ArbitraryArgs
	c.RunE = func(_ *cobra.Command, args []string) error {
		wrong := "SHELL is missing"
		if len(args) > 0 {
			wrong = fmt.Sprintf("unknown shell %q", args[0])
		}
		return cli.Usage("garrison completion: %s (want %s). Try: garrison completion bash --help", wrong, known)
	}
}
