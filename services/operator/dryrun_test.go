package operator

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// dryRuns is a command line for each command with --dry-run. ID is an intent that was accepted, DIR a directory.
var dryRuns = []string{
	"apply -f DIR/fleet.yaml", "check --fix", "configure beacon --set level=debug --on all",
	"env default set prod beacon@1.0.0 --reach all", "image prune beacon --older-than 1ms",
	"import ansible DIR/hosts", "import triton DIR/dump", "install beacon --on all",
	"instance adopt web-1 12 --as beacon@1.0.0", "instance release web-1 beacon", "intent cancel ID",
	"purge-undo --on all", "remove beacon --on all", "restore accept --on all",
	"rollout apply DIR/plan.json", "rollout start beacon@2.0.0 --on all", "rollout undo " + paused,
	"server clean gone-1 --ssh root@gone --ssh-command true", "server decommission web-1",
	"server decommission web-1 --lost", "server decommission --on all", "server forget --on all",
	"server move web-1 --env prod", "server quarantine --on all", "server refresh web-1", "server reinstall web-1",
	"server release --on all", "server replace web-2", "server revoke --on all", "server scan web-1", "undo ID",
	"up beacon@2.0.0 --on all", "up beacon@2.0.0 --on all --batch 50%",
}

// anns is the context file of an operator.
const anns = `{"url": "nats://here", "actor": "ann", "role": "operator", "jwt": "j", "seed": "SECRET"}`

// elsewhere are commands whose dry run needs more than a bus: the dumps of another system, or another machine.
var elsewhere = map[string]bool{"triton": true, "clean": true}

func TestADryRunOfAnyCommandLeavesNothingInTheLedger(t *testing.T) {
	t.Parallel()
	r, dir := startRunner(t), t.TempDir()
	for name, text := range map[string]string{
		"ctx.json":   anns,
		"fleet.yaml": "format: 1\nenvironments: {prod: {}}\n", "hosts": "[web]\nweb-1\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	execute := func(line string) string {
		_, said := r.execute(t, dir, line)
		return said
	}
	execute("env create prod")
	execute("rollout plan beacon@2.0.0 --on all --keep 12/label.rak --save " + dir + "/plan.json")
	said := execute("up beacon@2.0.0 --on all --yes --detach")
	id := regexp.MustCompile(`intent ([0-9a-f-]{36})`).FindStringSubmatch(said)
	if id == nil {
		t.Fatalf("no intent was accepted: %s", said)
	}
	everyCommand(newRoot(cli.NewEnv(nil, nil, nil, nil)), func(c *cobra.Command) {
		if c.Flags().Lookup("dry-run") == nil {
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), "garrison ") + " "
		known := false
		for _, line := range dryRuns {
			if !strings.HasPrefix(line, path) {
				continue
			}
			known = true
			before := recorded(t, r.bus)
			said := execute(strings.NewReplacer("ID", id[1], "DIR", dir).Replace(line) + " --dry-run")
			if after := recorded(t, r.bus); after != before {
				t.Errorf("%s --dry-run was recorded: %s", line, said)
			}
			if failed := strings.Contains(said, "garrison: "); failed && !elsewhere[c.Name()] {
				t.Errorf("%s --dry-run is refused: %s", line, said)
			}
		}
		if !known {
			t.Errorf("%s has --dry-run and no line here", path)
		}
	})
}

// execute runs a command line with the context file of a directory, and returns what it prints as data, and all of it.
func (r *runner) execute(t *testing.T, dir, line string) (data, all string) {
	var out, said bytes.Buffer
	env := cli.NewEnv(strings.NewReader(""), io.MultiWriter(&out, &said), &said, func(name string) string {
		return map[string]string{"GARRISON_CONTEXT": dir + "/ctx.json", "HOME": dir}[name]
	})
	env.Dial = func(o bus.Options) (*bus.Conn, error) { return r.bus.Dial(t, o.Name), nil }
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run(ctx, env, strings.Fields(line))
	return out.String(), said.String()
}

// recorded returns where the ledger and the stream of intents end.
func recorded(t *testing.T, b *bustest.Bus) (ends [2]uint64) {
	t.Helper()
	conn := b.Dial(t, "observer")
	for n, stream := range []string{topology.Ledger, topology.Intents} {
		info, err := conn.Stream(t.Context(), stream)
		if err != nil {
			t.Fatal(err)
		}
		ends[n] = info.LastSequence
	}
	return ends
}
