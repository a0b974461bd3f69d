package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

func TestTheDemoEndsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	tmp := shortDir(t)
	cmd := exec.CommandContext(within(t, 3*time.Minute), filepath.Join(bin, "demo"), "--bin", bin)
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
