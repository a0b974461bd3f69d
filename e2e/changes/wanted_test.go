package changes_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// What a file wants of an environment comes to its servers as one rollout, once: a second apply has nothing to do. What
// somebody changes by hand is a difference, with who did it, and the next apply takes it back.
func TestAFileSaysWhichVersionsRun(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "beta")}
	w.OK("env", "create", "prod")
	w.OK("server", "set", "alpha", "beta", "--env", "prod", "--yes")
	file := filepath.Join(w.Dir, "prod.yaml")
	declare := func(version string) {
		scenario.Must(t, os.WriteFile(file, []byte("format: 1\nenvironments:\n  prod:\n    wanted: {beacon: "+version+
			"}\n    rollout: {stages: [{canaries: 1}]}\n"), 0o600))
	}
	shows := func(text string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
	}
	differs := func(wants ...string) {
		t.Helper()
		w.Fails(3, "", "apply", "-f", file, "--dry-run")
		text, _ := w.CLI(t.Context(), "apply", "-f", file, "--dry-run")
		shows(text, wants...)
	}
	declare("1.0.0")
	differs("wanted.beacon", "1.0.0", "changes 2 servers")
	shows(w.OK("apply", "-f", file, "--yes", "--watch", "-m", "as merged"), "changes 2 servers")
	w.Converges("1.0.0")
	for _, again := range [][]string{{"apply", "-f", file, "--dry-run"}, {"apply", "-f", file, "--yes"}} {
		if text := w.OK(again...); text != "" {
			t.Errorf("%v shows %s", again, text)
		}
	}
	shows(w.OK("rollout", "list", "-o", "wide"), "prod as declared: beacon 1.0.0")

	w.OK("up", "beacon@2.0.0", "--on", "beta", "--yes")
	if text := w.OK("export", "--wanted"); strings.Contains(text, "wanted:") {
		t.Errorf("the servers want different versions, and the export has\n%s", text)
	}
	differs("1.0.0 on 1, 2.0.0 on 1", "changes 1 server", "asked for 2.0.0 on beta")
	declare("2.0.0")
	shows(w.OK("apply", "-f", file, "--yes", "--watch"), "1.0.0 on 1", "changes 1 server")
	w.Converges("2.0.0")
	shows(w.OK("export", "--wanted"), "wanted:\n      beacon: 2.0.0\n")
	w.Holds()
}
