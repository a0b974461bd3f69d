package changes_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// An upgrade waits for two stopped executors. The task of one is cancelled: it never begins, and the other one does.
func TestATaskOfAStoppedExecutorIsCancelledAlone(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{}, "alpha", "bravo")}
	w.OK("install", "beacon@1.0.0", "--on", "all")
	w.Converges("1.0.0")
	for _, s := range w.Servers {
		scenario.Must(t, s.Executor.Stop())
	}
	for _, name := range []string{"alpha", "bravo"} {
		w.Eventually(name+" is offline", func() error { return w.presenceIs(name, "offline") })
	}
	id := strings.TrimSpace(w.OK("up", "beacon@2.0.0", "--on", "all", "--yes", "--detach", "-o", "name"))
	w.Eventually("both wait", func() error { return w.progressIs(id, "2 queued") })
	task := strings.TrimSpace(w.OK("task", "list", "--on", "bravo", "--state", "queued", "-o", "name"))

	w.OK("cancel", task, "--yes", "-m", "not there")
	w.Eventually("one is cancelled", func() error { return w.progressIs(id, "1 queued, 1 cancelled") })
	w.Fails(8, "NOT_QUEUED", "cancel", task, "--yes")
	for _, s := range w.Servers {
		scenario.Must(t, s.Executor.Revive())
	}
	w.Eventually("the other one succeeds",
		func() error { return w.progressIs(id, "1 succeeded, 1 cancelled; finished") })
	have := w.OK("instance", "list", "beacon", "--columns", "server,found", "--no-headers", "--sort", "server")
	if strings.Join(strings.Fields(have), " ") != "alpha 2.0.0 bravo 1.0.0" {
		t.Errorf("the servers have\n%s", have)
	}
}
