package operator

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// fitHelp breaks the help of all commands between words where it is printed on a terminal.
func fitHelp(env *cli.Env, root *cobra.Command) {
	shown := root.HelpFunc()
	usage := root.UsageTemplate()
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if width := env.Output.Width(); width > 0 {
			c.Long = output.Reflow(cmp.Or(c.Long, c.Short), width)
			for _, s := range c.Commands() { // a line of the list has its name first, between spaces
				s.Short = output.Wrap(s.Short, width, len("  ")+s.NamePadding()+len(" "))
			}
			root.SetUsageTemplate(strings.ReplaceAll(usage, ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", width)))
		}
		shown(c, args)
	})
}
