package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/listing"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Prints returns a hook that refuses unknown columns before a command changes anything.
func Prints[T any](env *Env, l listing.Listing[T]) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error { return output.CheckColumns(env.Output, l) }
}

// NoTable refuses the flags of tables, for a command that prints none: they would have no effect.
func NoTable(env *Env) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, _ []string) error {
		for _, name := range []string{"columns", "sort", "no-headers"} {
			if c.Flags().Changed(name) {
				return Usage("--%s does not apply: %s prints no table. Try: %[2]s --help", name, c.CommandPath())
			}
		}
		if env.Output.Format == output.FormatName {
			return Usage("-o name does not apply: %s lists nothing that has a name. Try: %[1]s --help", c.CommandPath())
		}
		return nil
	}
}

// FlagError returns an error that names the wrong flag and the reason, or the nearest flag to an unknown one. Behind an
// unknown command it names the command instead.
func FlagError(c *cobra.Command, err error) error {
	group := c.HasSubCommands() && (c.Args == nil || !c.HasParent()) // it takes no arguments of its own
	if words := c.Flags().Args(); group && len(words) > 0 {
		return RefuseUnknown(c, words)
	}
	text := err.Error()
	var wrong *pflag.InvalidValueError
	var missing *pflag.NotExistError
	switch {
	case errors.As(err, &wrong):
		why := wrong.Unwrap().Error()
		if wrong.GetFlag().Value.Type() == "bool" {
			why = fmt.Sprintf("%q is not true or false", wrong.GetValue())
		}
		text = "--" + wrong.GetFlag().Name + ": " + why
	case errors.As(err, &missing):
		if near := flagMeant(c, missing.GetSpecifiedName()); near != "" {
			text += ". Nearest: " + near
		}
	}
	return Usage("%s: %s. Try: %s --help", c.CommandPath(), text, c.CommandPath())
}

// Group returns a noun with its verbs as subcommands.
func Group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: RefuseUnknown}
	nameVerbs(verbs)
	c.AddCommand(verbs...)
	return c
}

// RefuseUnknown refuses an unknown command and names the nearest one; without arguments it prints the help.
func RefuseUnknown(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return c.Help()
	}
	text, help := "unknown command "+c.CommandPath()+" "+args[0], c.CommandPath()
	if line := RenamedTo(c, args); line != "" {
		return Usage("%s. Try: %s", text, fault.Hint(line))
	}
	if near := meant(c, args); near != nil {
		help = near.CommandPath()
		text += ". Nearest: " + help
	}
	return Usage("%s. Try: %s --help", text, help)
}

// Exactly requires one argument for each name. Its error names the one that is missing or empty.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usage("%s: %s is missing. Try: %s", c.CommandPath(), names[len(args)], listOf(c, names[len(args)]))
		case len(args) > len(names):
			return unexpected(c, args, len(names))
		}
		if n := slices.Index(args, ""); n >= 0 { // such as an unset variable of a script
			return Usage("%s: %s is empty. Try: %s --help", c.CommandPath(), names[n], c.CommandPath())
		}
		return nil
	}
}

// listOf returns the command that lists what an argument names, or the help of its command.
func listOf(c *cobra.Command, argument string) string {
	list, _, err := c.Root().Find([]string{strings.ToLower(argument), "list"})
	if err == nil && list.Name() == "list" {
		return list.CommandPath()
	}
	return c.CommandPath() + " --help"
}

// Subject is Exactly for a verb whose name was a noun's. A command that is gone is refused with what took its place.
func Subject(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if line := RenamedTo(c, args); line != "" {
			return gone(c, args, line)
		}
		return Exactly(name)(c, args)
	}
}

// AtLeast requires one argument or more of a name.
func AtLeast(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		return Exactly(slices.Repeat([]string{name}, max(1, len(args)))...)(c, args)
	}
}

// OneIntent requires the id of an intent, or a prefix that no other kept intent has.
func OneIntent(c *cobra.Command, args []string) error {
	if err := Exactly("INTENT")(c, args); err != nil {
		return err
	}
	if err := IDPrefix("an intent")(args[0]); err != nil {
		return Usage("%v. Try: garrison intent list", err)
	}
	return nil
}

// AtMost allows at most one argument for each name.
func AtMost(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if line := RenamedTo(c, args); line != "" && c.HasParent() {
			return gone(c, args, line)
		}
		if len(args) > len(names) {
			return unexpected(c, args, len(names))
		}
		return nil
	}
}

func gone(c *cobra.Command, args []string, line string) error {
	return Usage("%s %s is gone. Try: %s", c.CommandPath(), args[0], fault.Hint(line))
}
