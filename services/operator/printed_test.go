package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/printed"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestEveryCommandThatTheSourcePrintsIsACommandLine(t *testing.T) {
	t.Parallel()
	seen, err := printed.InSource("garrison", func(at string, c printed.Command) {
		if err := mistaken(c); err != nil {
			t.Errorf("%s: %q: %v", at, "garrison "+c.Line, err)
		}
	}, "../../services", "../../pkg", "../../deploy")
	if err != nil || seen < 200 {
		t.Errorf("only %d commands were found: %v", seen, err)
	}
}

func TestASuggestedCommandWithAWrongVerbFlagOrArgumentIsFound(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]bool{
		"Try: garrison image show":                                 true, // it takes an argument
		"garrison server list --stat":                              true,
		"to see it: garrison serve list":                           true,
		"to see it: garrison task list --state nosuch":             true,
		"garrison task list --state " + printed.Unknown + ", or b": false,
		"garrison task list --limit 0":                             true,
		"garrison undo INTENT":                                     false,
		"it lasts until garrison unhold":                           false, // a sentence names the command
		"it lasts until garrison unholds":                          true,
		"garrison image build --help lists the variables":          false,
	} {
		found := false
		for _, s := range printed.Commands("garrison", text, false) {
			found = found || mistaken(s) != nil
		}
		if found != wrong {
			t.Errorf("%q is found: %t", text, found)
		}
	}
}

// mistaken returns why a command line cannot be run. A word that is not known yet may be any.
func mistaken(s printed.Command) error {
	words, err := split(s.Line)
	if err != nil {
		return err
	}
	root := newRoot(cli.NewEnv(nil, nil, nil, func(string) string { return "" }))
	c, rest, err := root.Find(words)
	if err != nil || slices.Contains(rest, "--help") {
		return err
	}
	if !c.Runnable() || c.HasSubCommands() && !strings.Contains(c.Use, " ") && len(rest) > 0 {
		return fmt.Errorf("%s is no command to run", c.CommandPath())
	}
	args, err := withoutFlags(c, rest)
	if err != nil || !s.Whole && len(args) == 0 {
		return err
	}
	var known []string // the others may be flags with their values
	for i := range args {
		if args[i] != printed.Unknown {
			known = append(known, args[i])
		}
		args[i] = printed.Placeholder.ReplaceAllString(args[i], printed.Unknown)
	}
	if err = c.ValidateArgs(args); err != nil && c.ValidateArgs(known) == nil {
		err = nil
	}
	return errors.Join(err, c.ValidateRequiredFlags(), c.ValidateFlagGroups())
}

// withoutFlags reads the flags of a command line and returns the other words.
func withoutFlags(c *cobra.Command, words []string) (args []string, err error) {
	c.InitDefaultHelpFlag()
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "-") || word == "-" {
			args = append(args, word)
			continue
		}
		flag := c.Flags().Lookup(name)
		if flag == nil {
			flag = c.InheritedFlags().Lookup(name)
		}
		if len(word) == 2 {
			flag = c.Flags().ShorthandLookup(name)
		}
		if flag == nil {
			return nil, fmt.Errorf("%s has no flag %s", c.CommandPath(), word)
		}
		if !has && flag.NoOptDefVal != "" {
			flag.Changed = true
			continue
		}
		if !has {
			if len(words) == 0 {
				return nil, fmt.Errorf("%s has no value", word)
			}
			value, words = words[0], words[1:]
		}
		if err := c.Flags().Set(flag.Name, value); err != nil && !printed.Placeholder.MatchString(value) {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
	}
	return args, nil
}

// runWhatWasPrinted runs each command that a command line printed, as a dry run where it changes something: none may be
// refused as a command line, or be the one that printed it. Pages of help have commands of other sites.
func runWhatWasPrinted(ts *testscript.TestScript, args []string, said string) {
	if slices.Contains([]string{"help", "man", "__complete"}, args[0]) || slices.Contains(args, "--help") ||
		args[0] == "explain" && (len(args) == 1 || strings.HasPrefix(args[1], "-")) {
		return
	}
	for _, s := range printed.InOutput("garrison", said) {
		if err := mistaken(s); err != nil {
			ts.Fatalf("garrison %s printed garrison %s: %v", args, s.Line, err)
		}
		words, err := split(s.Line)
		ts.Check(err)
		if slices.Equal(words, args) {
			ts.Fatalf("garrison %s leads to itself", args)
		}
		ran := ts.Value("ran").(map[string]bool)
		if ran[s.Line] || printed.Placeholder.MatchString(s.Line) || staysHere.MatchString(s.Line) {
			continue
		}
		ran[s.Line] = true
		root := newRoot(cli.NewEnv(nil, nil, nil, func(string) string { return "" }))
		if c, _, _ := root.Find(words); c.Flags().Lookup("dry-run") != nil && words[0] != "check" {
			words = append(words, "--dry-run")
		}
		var errs bytes.Buffer
		if run(context.Background(), newSession(ts, io.Discard, &errs), words) == cli.ExitUsage {
			ts.Fatalf("garrison %s printed garrison %s: %s", args, s.Line, &errs)
		}
	}
}

// staysHere finds commands that wait for what happens, or write files.
var staysHere = regexp.MustCompile(`^(rollout )?watch |^image (key|build) |^context (add|use|rm) `)
