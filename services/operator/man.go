package operator

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func (s *session) manCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use: "man [COMMAND]…", Short: "Print the manual page of a command, or write all of them into a directory",
		RunE: func(c *cobra.Command, a []string) error {
			root := c.Root()
			root.DisableAutoGenTag = true
			at := s.now()
			header := &doc.GenManHeader{Section: "1", Source: "Garrison", Manual: "Garrison", Date: &at}
			if dir != "" {
				if err := os.MkdirAll(dir, 0o755); err != nil {
					return err
				}
				return doc.GenManTree(root, header, dir)
			}
			found, rest, err := root.Find(a)
			if err != nil || len(rest) > 0 {
				return usage("there is no command garrison %s", a)
			}
			return doc.GenMan(found, header, s.out)
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write the pages of all commands into this `DIRECTORY`")
	return c
}
