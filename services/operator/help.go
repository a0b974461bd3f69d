package operator

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// daily are the commands of the first page of help, in the order of a day.
var daily = []string{
	"status", "explain", "install", "up", "undo", "remove", "hold", "configure", "check", "events", "logs", "rollout",
}

// firstPage ends the first page of help.
const firstPage = `
  garrison help all             every command
  garrison help flags           the flags of every command, such as -o json
  garrison help selectors       how servers are selected with --on
  garrison help exit-codes      what the exit codes mean
  garrison COMMAND --help       a command, its flags and examples
`

// fitHelp sets how help is printed: broken between words at the width of the terminal.
func fitHelp(env *cli.Env, root *cobra.Command) {
	shown := root.HelpFunc()
	h := helper{env: env, root: root}
	root.SetUsageFunc(h.usage)
	root.SetHelpFunc(func(c *cobra.Command, args []string) {
		if line := cli.RenamedTo(c, c.Flags().Args()); line != "" && len(c.Flags().Args()) > 0 { // a word and --help
			env.Say("%s %s is gone. Try: %s", c.CommandPath(), c.Flags().Arg(0), fault.Hint(line))
			if now, _, err := root.Find(strings.Fields(line)[1:]); err == nil && now != root {
				c = now
			}
		}
		c.Long = output.Reflow(cmp.Or(c.Long, c.Short), h.width())
		switch {
		case c == root:
			h.first(c.OutOrStdout())
		case c.Name() == allTopic && c.Parent() == root:
			root.SetOut(c.OutOrStdout())
			shown(root, args)
		case c.Name() == flagsTopic && c.Parent() == root:
			fmt.Fprintln(c.OutOrStdout(), "Flags of every command:")
			fmt.Fprint(c.OutOrStdout(), root.PersistentFlags().FlagUsagesWrapped(h.width()))
		default:
			shown(c, args)
		}
	})
}

// The topics of garrison help that are about all commands.
const (
	allTopic   = "all"
	flagsTopic = "flags"
)

// helper prints help.
type helper struct {
	env  *cli.Env
	root *cobra.Command
}

func (h helper) width() int { return cmp.Or(h.env.Output.Width(), cli.PipedWidth) }

// first prints the first page: the commands of a day.
func (h helper) first(w io.Writer) {
	fmt.Fprintf(w, "%s\n\nUsage: garrison COMMAND [flags]\n\n", h.root.Short)
	for _, name := range daily {
		c, _, err := h.root.Find([]string{name})
		if err == nil {
			fmt.Fprintf(w, "  %-10s %s\n", name, c.Short)
		}
	}
	fmt.Fprint(w, firstPage)
}

// usage prints how a command is used: its line, examples, commands and flags.
func (h helper) usage(c *cobra.Command) error {
	w := c.OutOrStderr()
	fmt.Fprint(w, "Usage:\n")
	if c.Runnable() && c.HasParent() {
		fmt.Fprintf(w, "  %s\n", output.Wrap(c.UseLine(), h.width(), len("    ")))
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", c.CommandPath())
	}
	if len(c.Aliases) > 0 {
		fmt.Fprintf(w, "\nAliases:\n  %s\n", c.NameAndAliases())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	for _, g := range append(c.Groups(), &cobra.Group{Title: "Commands:"}) {
		h.commands(w, c, g)
	}
	for _, g := range cli.FlagGroups(c.LocalFlags()) {
		fmt.Fprintf(w, "\n%s:\n%s", g.Title, g.Flags.FlagUsagesWrapped(h.width()))
	}
	if c.HasAvailableInheritedFlags() {
		fmt.Fprint(w, "\nFlags of every command, such as -o json: garrison help flags\n")
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\nUse \"%s [command] --help\" for more information about a command.\n", c.CommandPath())
	}
	return nil
}

// commands prints the commands of a group below a command.
func (h helper) commands(w io.Writer, c *cobra.Command, g *cobra.Group) {
	title, longest := "\n"+g.Title+"\n", 0
	for _, s := range c.Commands() {
		longest = max(longest, len(s.Name()))
	}
	for _, s := range c.Commands() {
		shown := s.IsAvailableCommand() || s.IsAdditionalHelpTopicCommand() || s.Name() == "help"
		if s.GroupID != g.ID || !shown {
			continue
		}
		fmt.Fprintf(w, "%s  %-*s  %s\n", title, longest, s.Name(),
			output.Wrap(s.Short, h.width(), len("  ")+longest+len("  ")))
		title = ""
	}
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
			header := &doc.GenManHeader{Section: "1", Source: "Garrison", Manual: "Garrison"} // dated SOURCE_DATE_EPOCH
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
	cli.TextVar(c.Flags(), &dir, "out", cli.NotEmpty("directory"),
		"write the pages of all commands to this `DIRECTORY`")
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
