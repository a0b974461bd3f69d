package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/nearest"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// meant returns the command that an unknown one most likely stands for: the words of another tool, a verb and a noun in
// either order, or a similar spelling. The order matters: uninstall is similar to install and means remove. It is nil
// when nothing is near.
func meant(c *cobra.Command, args []string) *cobra.Command {
	words := make([]string, len(args))
	for n, a := range args {
		words[n] = strings.ToLower(a)
	}
	if c.HasParent() {
		if known := otherWords[c.Name()+" "+words[0]]; known != "" {
			return command(c.Root(), known)
		}
		return verbMeant(c, words[0], len(words) > 1)
	}
	if len(words) > 1 {
		if noun := nounMeant(c, words[1]); noun != nil { // kubectl get nodes
			if !noun.HasSubCommands() {
				return noun
			}
			if verb := verbMeant(noun, words[0], len(words) > 2); verb != nil {
				return verb
			}
		}
		if noun := nounMeant(c, words[0]); noun != nil && noun.HasSubCommands() { // nomad node status
			if verb := verbMeant(noun, words[1], len(words) > 2); verb != nil {
				return verb
			}
		}
	}
	if known := otherWords[words[0]]; known != "" {
		return command(c, known)
	}
	return verbMeant(c, words[0], len(words) > 1)
}

// command returns the command of a path below the root.
func command(root *cobra.Command, path string) *cobra.Command {
	found, _, err := root.Find(strings.Fields(path))
	if err != nil {
		return nil
	}
	return found
}

// nounMeant returns the noun that a word stands for: its name, a plural of it, or what other tools call it.
func nounMeant(root *cobra.Command, word string) *cobra.Command {
	for _, name := range []string{word, strings.TrimSuffix(word, "s"), otherNouns[strings.TrimSuffix(word, "s")]} {
		for _, c := range root.Commands() {
			if c.Name() == name && (c.GroupID == "noun" || name == "context" || name == "events" || name == "bus") {
				return c
			}
		}
	}
	return nil
}

// verbMeant returns the command below another one that a word stands for. Words that mean a list and an object, such as
// get, mean the object when something is named.
func verbMeant(c *cobra.Command, word string, named bool) *cobra.Command {
	var known []*cobra.Command
	var names []string
	for _, v := range c.Commands() {
		if v.Name() == word || slices.Contains(v.Aliases, word) {
			return v
		}
		if slices.Contains(v.SuggestFor, word) {
			known = append(known, v)
		}
		if !v.Hidden {
			names = append(names, v.Name())
		}
	}
	if len(known) > 0 {
		for _, v := range known {
			if named && v.Name() == "show" {
				return v
			}
		}
		return known[0]
	}
	near := nearest.Name(word, slices.Values(names))
	for _, name := range names {
		if near == "" && len(word) > 2 && strings.HasPrefix(name, word) {
			near = name
		}
	}
	if near == "" {
		return nil
	}
	return command(c, near)
}

// flagMeant returns the flag that an unknown one most likely stands for, with its value where that is known.
func flagMeant(c *cobra.Command, name string) string {
	for _, f := range otherFlags[name] {
		if c.Flags().Lookup(f.flag) != nil {
			return f.text
		}
	}
	switch {
	case slices.Contains([]string{"y", "yes", "force", "assume-yes"}, name):
		return "nothing; " + c.CommandPath() + " does not ask for confirmation"
	case slices.Contains([]string{"version", "to", "tag"}, name) && strings.Contains(c.Use, "AGENT[@"):
		return "AGENT@VERSION"
	}
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	if near := nearest.Name(name, slices.Values(names)); near != "" && len(name) > 1 {
		return "--" + near
	}
	return ""
}

// unexpected refuses the arguments behind the first few, and names the command line that has a place for the next one.
func unexpected(c *cobra.Command, args []string, few int) error {
	path := c.CommandPath()
	for _, a := range args[:few] {
		path += " " + output.Quote(a)
	}
	try := c.CommandPath() + " --help"
	if place := placeOf(c, args[few], few > 0); place != "" {
		try = path + place + output.Quote(args[few])
	} else if other := sibling(c); few == 0 && other != "" {
		try = other + " " + output.Quote(args[few])
	}
	return Usage("%s: unexpected argument %q. Try: %s", c.CommandPath(), args[few], fault.Hint(try))
}

// placeOf returns what belongs before a further argument in the same command line: a version behind the agent, the
// servers, or a file; "" when it has no place there.
func placeOf(c *cobra.Command, extra string, behind bool) string {
	switch {
	case behind && strings.Contains(c.Use, "AGENT[@") && extra != "" && strings.Contains("0123456789", extra[:1]):
		return "@"
	case behind && c.Flags().Lookup("on") != nil:
		return " --on "
	case !behind && strings.HasSuffix(c.Use, " --on SELECTOR"):
		return " --on "
	case !behind && c.Flags().Lookup("file") != nil:
		return " -f "
	}
	return ""
}

// sibling returns the command that shows one of what another one lists or sums up; "" without one.
func sibling(c *cobra.Command) string {
	if c.CommandPath() == "garrison status" {
		return "garrison explain"
	}
	if c.Name() == "list" && c.HasParent() {
		for _, s := range c.Parent().Commands() {
			if s.Name() == "show" {
				return s.CommandPath()
			}
		}
	}
	return ""
}
