package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/printed"
)

// nouns are the words that follow the executor in sentences that name no command.
var nouns = []string{"running", "runs", "there", "rehearsed", "removed"}

func TestEveryCommandOfTheExecutorThatTheSourcePrintsIsACommandLine(t *testing.T) {
	t.Parallel()
	seen, err := printed.InSource("executor", func(at string, c printed.Command) {
		if first, _, _ := strings.Cut(c.Line, " "); slices.Contains(nouns, first) {
			return
		}
		if err := mistaken(c.Line); err != nil {
			t.Errorf("%s: %q: %v", at, "executor "+c.Line, err)
		}
	}, "../../../../services", "../../../../pkg", "../../../../deploy")
	if err != nil || seen < 40 {
		t.Errorf("only %d commands were found: %v", seen, err)
	}
}

func TestACommandOfTheExecutorWithAWrongVerbFlagOrArgumentIsFound(t *testing.T) {
	t.Parallel()
	for line, wrong := range map[string]bool{
		"status":                           false,
		"status --root " + printed.Unknown: false,
		"busy run --for 10m -- COMMAND":    false,
		"busy end NAME":                    true, // its name is a flag
		"busy end --name NAME":             false,
		"stauts":                           true,
		"busy":                             true,
		"join --tokenfile FILE":            true,
		"join --token-file":                true,
		"uninstall --within soon":          true,
		"uninstall --within DURATION":      false,
	} {
		if err := mistaken(line); (err != nil) != wrong {
			t.Errorf("executor %s: %v", line, err)
		}
	}
}

// mistaken returns why a command line cannot be run. A word that is not known yet may be any.
func mistaken(line string) error {
	words := strings.Fields(line)
	for _, c := range commands {
		name := strings.Fields(c.name)
		if len(words) < len(name) || !slices.Equal(words[:len(name)], name) {
			continue
		}
		f := newFlags(c.name)
		f.SetOutput(io.Discard)
		if c.flags != nil {
			c.flags(f)
		}
		if c.name == "completion" && len(words) == 2 {
			return nil // its argument is the shell
		}
		return f.mistaken(f.splitCommand(c.name, words[len(name):]))
	}
	return fmt.Errorf("there is no such command")
}

func (f *flags) mistaken(words []string) error {
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		known := f.Lookup(name)
		if !strings.HasPrefix(word, "-") || word == "-" || known == nil {
			return fmt.Errorf("%s has no flag or argument %s", f.Name(), word)
		}
		if b, ok := known.Value.(interface{ IsBoolFlag() bool }); ok && b.IsBoolFlag() && !has {
			continue
		}
		if !has {
			if len(words) == 0 {
				return fmt.Errorf("%s has no value", word)
			}
			value, words = words[0], words[1:]
		}
		if err := f.Set(name, value); err != nil && !printed.Placeholder.MatchString(value) {
			return fmt.Errorf("%s: %w", word, err)
		}
	}
	return nil
}
