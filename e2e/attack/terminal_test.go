package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/pkg/visible"
)

func init() {
	add(attack{
		name: "steer the terminal of root", as: "an agent",
		tried: "control characters, U+009B, overrides of direction and line separators in its output and its " +
			"status line",
		stopped: "a filter on what enters a reason, and one on what each program prints", run: steerTerminal,
	})
}

// steerRecipe is an agent that never passes its health check, and says so with hostile text.
const steerRecipe = `agent: steer
version: 1.0.0
kind: daemon
run:
  command: beacon
  args: ["-listen", "127.0.0.1:${label.port}", "-misbehave", "steer"]
  ready: {http: "http://127.0.0.1:${label.port}/healthz", timeout: 1s}
`

func steerTerminal(t *trial) string {
	dir := filepath.Join(t.T.TempDir(), "steer")
	if err := sample.Fill(dir, filepath.Join(bin, "beacon"), "beacon", steerRecipe); err != nil {
		t.Fatal(err)
	}
	if err := t.attacker.Executor.Start(); err != nil {
		t.Fatal(err)
	}
	t.ok(t.T, "agent", "create", "steer")
	if err := sample.Activate(t.Context(), t.CLI, dir); err != nil {
		t.Fatal(err)
	}
	printed := map[string]string{}
	out, err := t.CLI(t.Context(), "install", "steer", "--on", t.attacker.Name)
	printed["garrison install"] = fmt.Sprint(out, err)
	for _, command := range [][]string{
		{"status"}, {"explain", t.attacker.Name}, {"task", "list"}, {"task", "list", "-o", "json"}, {"check"},
		{"logs", t.attacker.Name, "steer"},
	} {
		out, err := t.CLI(t.Context(), command...)
		printed["garrison "+strings.Join(command, " ")] = fmt.Sprint(out, err)
	}
	logs, _ := filepath.Glob(filepath.Join(t.Dir, "logs", "*.log"))
	for _, log := range logs {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		printed[filepath.Base(log)] = string(data)
	}
	if tasks := printed["garrison task list -o json"]; !strings.Contains(tasks, "answered 502 [2J31m") {
		t.Errorf("the reason does not hold the status line:\n%s", tasks)
	}
	for what, text := range printed {
		if strings.ContainsFunc(text, visible.Steers) {
			t.Errorf("%s prints %q", what, text)
		}
	}
	return fmt.Sprintf("%d outputs and logs are clean", len(printed))
}
