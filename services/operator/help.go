package operator

import (
	"cmp"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

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

func manCommand(env *cli.Env) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "man [COMMAND]…",
		Example: "  garrison man server enroll",
		Short:   "Print the manual page of a command, or write all pages to a directory.",
		PreRunE: cli.NoTable(env),
		RunE: func(c *cobra.Command, a []string) error {
			root := c.Root()
			root.DisableAutoGenTag = true
			plainBrackets(root)
			at := env.Now()
			header := &doc.GenManHeader{Section: "1", Source: "Garrison", Manual: "Garrison", Date: &at}
			if dir != "" {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
				return doc.GenManTree(root, header, dir)
			}
			found, rest, err := root.Find(a)
			if err != nil {
				return cli.RefuseUnknown(root, a)
			}
			if len(rest) > 0 {
				return cli.RefuseUnknown(found, rest)
			}
			return doc.GenMan(found, header, env.Out)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write the pages of all commands to this `DIRECTORY`")
	return c
}

// plainBrackets escapes the brackets in the help of all flags, which Markdown, from which the pages are made, takes for
// links, and leaves out the default of an empty list.
func plainBrackets(c *cobra.Command) {
	escape := strings.NewReplacer("[", `\[`, "]", `\]`)
	plain := func(f *pflag.Flag) {
		if f.Usage = escape.Replace(f.Usage); f.DefValue == "[]" {
			f.DefValue = ""
		}
	}
	c.LocalNonPersistentFlags().VisitAll(plain)
	c.PersistentFlags().VisitAll(plain)
	for _, sub := range c.Commands() {
		plainBrackets(sub)
	}
}
