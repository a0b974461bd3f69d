package operator

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// The parser accepts every example of every help: its command, its flags with their values, and its arguments. Package
// e2e/examples runs those that can run on one machine.
func TestEveryExampleOfEveryHelpIsACommandLine(t *testing.T) {
	t.Parallel()
	seen := 0
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		for line := range strings.SplitSeq(c.Example, "\n") {
			_, line, isExample := strings.Cut(line, "garrison ")
			if !isExample {
				continue
			}
			seen++
			if err := accepts(line); err != nil {
				t.Errorf("%s: example %q: %v", c.CommandPath(), line, err)
			}
		}
	})
	if seen < 150 {
		t.Errorf("only %d examples were found", seen)
	}
}

func TestAnExampleWithAWrongFlagValueOrArgumentIsNoCommandLine(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"up beacon --onn all", "up beacon --on all --batch x", "server list web-1", "server lst", "image show",
		"up 'beacon --on all",
	} {
		if accepts(line) == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}

// accepts returns why a command line without its first word is refused before it runs.
func accepts(line string) error {
	words, err := split(line)
	if err != nil {
		return err
	}
	root := newRoot(cli.NewEnv(nil, nil, nil, func(string) string { return "" }))
	c, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if group := c.HasSubCommands() && !strings.Contains(c.Use, " "); group && len(rest) > 0 || !c.Runnable() {
		return fmt.Errorf("%s is no command to run", c.CommandPath())
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return errors.Join(c.ValidateArgs(c.Flags().Args()), c.ValidateRequiredFlags(), c.ValidateFlagGroups())
}

// split returns the words of a command as a shell does, up to a pipe, a redirection or a comment.
func split(line string) (words []string, err error) {
	var word strings.Builder
	open, inside := rune(0), false
	end := func() {
		if inside {
			words = append(words, word.String())
		}
		word.Reset()
		inside = false
	}
	for _, r := range line {
		switch {
		case open != 0 && r == open:
			open = 0
		case open != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			open, inside = r, true
		case strings.ContainsRune("|>&;", r), r == '#' && !inside:
			end()
			return words, nil
		case r == ' ':
			end()
		default:
			word.WriteRune(r)
			inside = true
		}
	}
	if open != 0 {
		return nil, fmt.Errorf("the quote %c is not closed", open)
	}
	end()
	return words, nil
}
