package sessions_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/scenario"
)

func TestTheDemoEndsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	tmp := scenario.ShortDir(t)
	ctx := scenario.Within(t, 3*time.Minute)
	cmd := exec.CommandContext(ctx, filepath.Join(scenario.Bin, "rig"), "demo", "--bin", scenario.Bin)
	cmd.Env = append(os.Environ(), "TMPDIR="+tmp, "HOME="+tmp)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	left, err := os.ReadDir(tmp)
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
