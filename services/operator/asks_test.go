package operator

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// unasked are the commands that change something without a question: they add, or another command takes them back.
var unasked = []string{
	"agent create", "agent update", "app create", "app update", "env create", "env update", "channel create",
	"image activate", "image disable", "image import", "image promote", "source add", "source sync", "advisory import",
	"block", "unblock", "hold", "unhold", "label-rule set",
	"install", "instance report", "server enroll", "server refresh",
	"server accept", "server reject", "token create", "user create",
	"rollout abort", "rollout approve", "rollout pause", "rollout reject", "rollout resume",
}

func TestEveryCommandThatRemovesSomethingAsksFirst(t *testing.T) {
	t.Parallel()
	r, dir := startRunner(t), t.TempDir()
	words := r.prepare(t, dir)
	lines := slices.Concat(dryRuns, slices.Sorted(maps.Keys(written)))
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		path := strings.TrimPrefix(c.CommandPath(), "garrison ")
		if c.Flags().Lookup("yes") == nil {
			return
		}
		switch path { // asks where something waits, as cancel.txtar shows; with --env, as default.txtar; needs a dump
		case "cancel", "server set", "import triton":
			return
		}
		if slices.Contains(unasked, path) {
			if slices.Contains(destroying, c.Name()) {
				t.Errorf("garrison %s destroys something, and need not ask", path)
			}
			return
		}
		for _, line := range lines {
			if !strings.HasPrefix(line+" ", path+" ") {
				continue
			}
			before := recorded(t, r.bus)
			code, _, said := r.execute(t, dir, words.Replace(strings.ReplaceAll(line, " --yes", "")))
			if code != cli.ExitUsage || !strings.Contains(said, "Try: --yes") {
				t.Errorf("garrison %s without a terminal and --yes ends with %d: %s", line, code, said)
			}
			if recorded(t, r.bus) != before {
				t.Errorf("garrison %s without a terminal and --yes was recorded", line)
			}
		}
	})
}
