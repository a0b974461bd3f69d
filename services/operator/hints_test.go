package operator

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

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
