package operator

import (
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/auth"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// local are commands that ask no service.
var local = []string{
	"all", "completion", "console", "context add", "context list", "context rm", "context token", "context use",
	"debug", "exit-codes", "flags",
	"help", "image build", "image key", "image sign", "image verify", "image-references", "man", "selectors", "whoami",
}

func TestWhoamiKnowsWhatEveryCommandAsksFor(t *testing.T) {
	t.Parallel()
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		words := strings.TrimPrefix(c.CommandPath(), "garrison ")
		if c.HasSubCommands() {
			return
		}
		asks := auth.Asks(strings.Fields(words))
		if alone := slices.Contains(local, words); alone != (len(asks) == 0) {
			t.Errorf("whoami --can %q stands for %q; the command asks no service: %v", words, asks, alone)
		}
	})
}
