package operator

import (
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// Exec runs one command line, without the program's name, and gives its exit code.
func Exec(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, getenv func(string) string) int {
	s := &session{in: stdin, out: stdout, err: stderr, getenv: getenv, now: time.Now, dial: bus.Dial}
	return s.run(ctx, args)
}

// run runs one command line and says why when it fails.
func (s *session) run(ctx context.Context, args []string) int {
	ctx, s.stop = context.WithCancelCause(ctx)
	defer s.stop(nil)
	defer s.close()
	root := s.root()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	if !s.began && codeOf(err) == exitError {
		err = usageError{err.Error()} // cobra refused the command line
	}
	if e, ok := err.(exit); !ok || !e.quiet {
		s.say("%s", lineOf(err))
	}
	return codeOf(err)
}

// root makes the tree of commands.
func (s *session) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "garrison",
		Short:         "Install, upgrade, watch and remove the agents of a fleet",
		Version:       version.Version,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs, // verb refuses them, and names the nearest
		RunE:          verb,

		SuggestionsMinimumDistance: likeness,
		PersistentPreRunE: func(*cobra.Command, []string) error {
			s.began = true
			return nil
		},
	}
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.SetFlagErrorFunc(flagError)
	root.PersistentFlags().StringVar(&s.context, "context", "", "context `FILE` or name (or the environment variable GARRISON_CONTEXT)")
	s.output.add(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: "day", Title: "Every day:"}, &cobra.Group{ID: "noun", Title: "Nouns:"}, &cobra.Group{ID: "self", Title: "About itself:"})
	day := []*cobra.Command{s.installCommand(), s.upCommand(), s.configureCommand(), s.removeCommand(), s.undoCommand(), s.eventsCommand(), s.versionsCommand()}
	nouns := []*cobra.Command{
		s.serverCommands(), s.instanceCommands(), s.agentCommands(), s.appCommands(), s.envCommands(),
		s.imageCommands(), s.channelCommands(), s.taskCommands(), s.intentCommands(), s.restoreCommands(),
	}
	self := []*cobra.Command{s.contextCommands(), s.explainCommand(), s.manCommand()}
	for id, commands := range map[string][]*cobra.Command{"day": day, "noun": nouns, "self": self} {
		for _, c := range commands {
			c.GroupID = id
			root.AddCommand(c)
		}
	}
	root.AddCommand(&cobra.Command{Use: "exit-codes", Short: "What the exit codes mean", Long: exitCodesText})
	root.SetHelpCommandGroupID("self")
	root.SetCompletionCommandGroupID("self")
	root.InitDefaultHelpCmd()
	if help, _, err := root.Find([]string{"help"}); err == nil {
		help.Args = func(_ *cobra.Command, a []string) error {
			found, rest, err := root.Find(a)
			if err == nil && found.HasSubCommands() && len(rest) > 0 { // a topic that is none
				return verb(found, rest)
			}
			return err
		}
	}
	return root
}

// likeness is how many letters a command may differ in from what was meant.
const likeness = 2

// group makes a noun, whose verbs are commands of their own.
func group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: verb, SuggestionsMinimumDistance: likeness}
	c.AddCommand(verbs...)
	return c
}

// verb refuses a command that is not there, and names the nearest; without a word it helps.
func verb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	text, help := "there is no command "+c.CommandPath()+" "+args[0], c.CommandPath()
	if near := nearestVerb(c, args[0]); near != "" {
		help += " " + near
		text += ". Nearest: " + help
	}
	return usage("%s. Try: %s --help", text, help)
}

// nearestVerb gives the command that a word means elsewhere, or else one that is spelled
// much like it: uninstall is no install.
func nearestVerb(c *cobra.Command, word string) string {
	for _, v := range c.Commands() {
		if slices.Contains(v.SuggestFor, strings.ToLower(word)) {
			return v.Name()
		}
	}
	if near := c.SuggestionsFor(word); len(near) > 0 {
		return near[0]
	}
	return ""
}

// exactly wants as many arguments as names, and names the missing one.
func exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usage("%s: %s is missing. Try: %s --help", c.CommandPath(), names[len(args)], c.CommandPath())
		case len(args) > len(names):
			return usage("%s: %q is too much. Try: %s --help", c.CommandPath(), args[len(names)], c.CommandPath())
		}
		return nil
	}
}

// atMost allows up to as many arguments as names.
func atMost(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return usage("%s: %q is too much. Try: %s --help", c.CommandPath(), args[len(names)], c.CommandPath())
		}
		return nil
	}
}
