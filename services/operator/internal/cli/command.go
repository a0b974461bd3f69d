package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/nearest"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Prints returns a hook that refuses unknown columns before a command changes anything.
func Prints[T any](env *Env, l output.Listing[T]) func(*cobra.Command, []string) error {
	return func(*cobra.Command, []string) error {
		return output.CheckColumns(env.Output, l)
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
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if near := nearest.Name(missing.GetSpecifiedName(), slices.Values(names)); near != "" {
			text += ". Nearest: --" + near
		}
	}
	return Usage("%s: %s. Try: %s --help", c.CommandPath(), text, c.CommandPath())
}

// Likeness is the edit distance up to which a command is suggested.
const Likeness = 2

// Group returns a noun with its verbs as subcommands.
func Group(use, short string, verbs ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: RefuseUnknown, SuggestionsMinimumDistance: Likeness}
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
	if near := nearestVerb(c, args[0]); near != "" {
		help += " " + near
		text += ". Nearest: " + help
	}
	return Usage("%s. Try: %s --help", text, help)
}

// nearestVerb returns the command that a synonym stands for, or else one with a similar spelling. The order matters:
// uninstall is similar to install and means remove.
func nearestVerb(c *cobra.Command, word string) string {
	if known := rootWords[strings.ToLower(word)]; known != "" && !c.HasParent() {
		return known
	}
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

// Exactly requires one argument for each name. Its error names the missing one.
func Exactly(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return Usage("%s: %s is missing. Try: %s --help", c.CommandPath(), names[len(args)], c.CommandPath())
		case len(args) > len(names):
			return Usage("%s: unexpected argument %q. Try: %s "+
				"--help", c.CommandPath(), args[len(names)], c.CommandPath())
		}
		return nil
	}
}

// AtMost allows at most one argument for each name.
func AtMost(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) > len(names) {
			return Usage("%s: unexpected argument %q. Try: %s "+
				"--help", c.CommandPath(), args[len(names)], c.CommandPath())
		}
		return nil
	}
}
