package operator

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestTheListsOfCommandsFitANarrowTerminal(t *testing.T) {
	t.Parallel()
	const width = 80
	for _, args := range [][]string{{"help", "all"}, {"server", "--help"}, {"rollout", "--help"}, {"image", "--help"}} {
		var said strings.Builder
		s := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
		s.Output.Width = func() int { return width }
		if code := run(context.Background(), s, args); code != cli.ExitOK {
			t.Fatalf("%s: exit code %d: %s", args, code, &said)
		}
		lists, _, _ := strings.Cut(said.String(), "\nFlags:\n")
		for line := range strings.SplitSeq(lists, "\n") {
			if n := text.StringWidth(line); n > width {
				t.Errorf("%s: %d columns: %s", args, n, line)
			}
		}
	}
}

func TestTheFirstPageOfHelpIsOneScreen(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}, {"help"}} {
		var said strings.Builder
		env := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
		if code := run(context.Background(), env, args); code != cli.ExitOK {
			t.Fatalf("%s: exit code %d: %s", args, code, &said)
		}
		lines, widest := strings.Count(said.String(), "\n"), text.LongestLineLen(said.String())
		if lines >= 24 || widest > 80 {
			t.Errorf("%s: %d lines, the widest of %d columns:\n%s", args, lines, widest, &said)
		}
		for _, name := range daily {
			if !strings.Contains(said.String(), "\n  "+name+" ") {
				t.Errorf("%s: %s is not on the page", args, name)
			}
		}
	}
}

func TestHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	for shown, width := range map[int]int{80: 80, 0: cli.PipedWidth} {
		helpFits(t, shown, width)
	}
}

// helpFits checks the help of every command, as it is shown on so many columns; 0 is no terminal.
func helpFits(t *testing.T, shown, width int) {
	t.Helper()
	var paths []string
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		if c.Runnable() && c.HasParent() {
			paths = append(paths, c.CommandPath())
		}
	})
	for _, path := range paths {
		var said strings.Builder
		s := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
		s.Output.Width = func() int { return shown }
		if code := run(context.Background(), s, append(strings.Fields(path)[1:], "--help")); code != cli.ExitOK {
			t.Fatalf("%s: exit code %d: %s", path, code, &said)
		}
		before, rest, _ := strings.Cut(said.String(), "\nExamples:\n")
		examples, after, _ := strings.Cut(rest, "\n\n")
		whole := before + "\n" + after
		if shown == 0 { // an example is never wrapped, so that it can be pasted
			whole += "\n" + examples
		}
		for line := range strings.SplitSeq(whole, "\n") {
			verbatim := shown > 0 && strings.HasPrefix(line, "  ") && !strings.Contains(after, line)
			if n := text.StringWidth(line); n > width && !verbatim {
				t.Errorf("%s: %d columns: %s", path, n, line)
			}
		}
	}
	if len(paths) < 100 {
		t.Errorf("only %d commands were looked at", len(paths))
	}
}

// A person pastes what stands behind "Try: " into a shell, and a script may have chosen the argument.
func TestNoHintRunsAnArgument(t *testing.T) {
	t.Parallel()
	ran := filepath.Join(t.TempDir(), "ran")
	hostile := "x$(touch " + ran + ")"
	tried, seen := 0, map[string]bool{}
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		if !c.Runnable() || !c.HasParent() {
			return
		}
		words := strings.Fields(c.CommandPath())[1:]
		for _, args := range [][]string{
			{hostile}, {hostile, hostile, hostile}, {"--from", hostile}, {"--key", hostile, hostile},
			{hostile, "--until", "2020-01-01"}, {"-f", hostile}, {"--on", hostile},
			{"--pooled", hostile, "--out", hostile},
		} {
			var said strings.Builder
			env := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
			run(context.Background(), env, append(words, args...))
			_, hint, found := strings.Cut(said.String(), "Try: ")
			if !found || !strings.Contains(hint, ran) {
				continue
			}
			if tried++; seen[hint] {
				continue
			}
			seen[hint] = true
			shell := exec.CommandContext(t.Context(), "sh", "-c", "true "+strings.ReplaceAll(hint, "\n", " "))
			shell.Dir = t.TempDir()
			_ = shell.Run()
			if _, err := os.Stat(ran); err == nil {
				t.Errorf("%s %q: %s", words, args, hint)
				_ = os.Remove(ran)
			}
		}
	})
	if tried < 10 {
		t.Errorf("only %d hints repeat an argument", tried)
	}
}
