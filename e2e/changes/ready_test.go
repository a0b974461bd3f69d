package changes_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/scenario"
)

// A command may follow at once when garrisond has printed that it listens.
func TestACommandRightAfterTheFirstLineIsAnswered(t *testing.T) {
	t.Parallel()
	dir := scenario.ShortDir(t)
	c := exec.CommandContext(t.Context(), filepath.Join(scenario.Bin, "garrisond"), "--data", dir, "--allow-lazy-sync")
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	scenario.Must(t, c.Start())
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.Contains(line, "listens at") {
		t.Fatalf("it says %q, %v", line, err)
	}
	for _, args := range [][]string{{"server", "list"}, {"task", "list"}, {"image", "list"}} {
		g := exec.CommandContext(t.Context(), filepath.Join(scenario.Bin, "garrison"), args...)
		g.Env = append(os.Environ(), "GARRISON_CONTEXT="+filepath.Join(dir, "operator.json"))
		if text, err := g.CombinedOutput(); err != nil {
			t.Errorf("garrison %v: %v: %s", args, err, text)
		}
	}
}
