package operator

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// screens are the command lines whose output on a terminal of 80 columns is in testdata/screens.
var screens = map[string]string{
	"help": "", "up": "up beacon@2.0.0 --on all", "up-many": "up many@2.0.0 --on all",
	"server-list": "server list", "instance-list": "instance list", "image-list": "image list tools",
	"intent-list": "intent list", "events": "events", "explain": "explain web-1", "check": "check",
	"rollout-list": "rollout list", "logs": "logs web-1 beacon --times", "rollout-show": "rollout show " + paused,
	"status":    "status",
	"task-show": "task show " + ident.From("flaky", web2),
}

// made are the ids that differ from run to run.
var made = regexp.MustCompile(`\b01[0-9a-f]{6}-[0-9a-f]{4}(-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})?\b`)

func TestTheScreensOfADayAreAsTheyWere(t *testing.T) {
	t.Parallel()
	for name, line := range screens {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, dir := startRunner(t), annsDirectory(t)
			for _, line := range []string{
				"up flaky@2.0.0 --on all --yes -m CHG-90", "image build testdata/tools --out " + dir + "/tools.gimg",
				"image import " + dir + "/tools.gimg --activate",
			} {
				r.execute(t, dir, line)
			}
			var said bytes.Buffer
			env := cli.NewEnv(strings.NewReader(""), &said, &said, func(name string) string {
				return map[string]string{"GARRISON_CONTEXT": dir + "/ctx.json", "HOME": dir}[name]
			})
			env.Now = func() time.Time { return noon }
			env.Output.Width = func() int { return 80 }
			env.Dial = func(o bus.Options) (*bus.Conn, error) { return r.bus.Dial(t, o.Name), nil }
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			run(ctx, env, strings.Fields(line))
			golden(t, name, said.String())
		})
	}
}

// golden compares what a screen shows with its file, and writes that with -update.
func golden(t *testing.T, name, have string) {
	t.Helper()
	have = made.ReplaceAllString(have, "01900000-0000")
	file := filepath.Join("testdata", "screens", name+".txt")
	if *update {
		if err := os.WriteFile(file, []byte(have), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(have, "\n"); n > 23 {
		t.Errorf("%d lines do not fit a terminal of 24 with its prompt", n)
	}
	want, err := os.ReadFile(file)
	if err != nil || have != string(want) {
		t.Errorf("%v; have\n%s\nwant\n%s", err, have, want)
	}
}
