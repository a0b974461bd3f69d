package operator

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func manCommand(env *cli.Env) *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:     "man [COMMAND]…",
		Example: "  garrison man server enroll",
		Short:   "Print the manual page of a command, or write all pages to a directory.",
		RunE: func(c *cobra.Command, a []string) error {
			root := c.Root()
			root.DisableAutoGenTag = true
			at := env.Now()
			header := &doc.GenManHeader{Section: "1", Source: "Garrison", Manual: "Garrison", Date: &at}
			if dir != "" {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
				return doc.GenManTree(root, header, dir)
			}
			found, rest, err := root.Find(a)
			if err != nil || len(rest) > 0 {
				return cli.Usage("unknown command garrison %s", a)
			}
			return doc.GenMan(found, header, env.Out)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write the pages of all commands to this `DIRECTORY`")
	return c
}
