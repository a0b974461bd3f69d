package executor

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
)

func TestAnExecutorWhoseRootRunsNothingIsSuspended(t *testing.T) {
	dir := t.TempDir()
	x := &Executor{root: layout.Root(dir)}
	works := monitor.Standing{Outcome: lifecycle.Outcome{Action: lifecycle.Work}}
	if err := os.Mkdir(x.root.Images(), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := x.withRoot(works); got != works {
		t.Errorf("%v", got)
	}
	if err := unix.Mount("garrison", x.root.Images(), "tmpfs", unix.MS_NOEXEC, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(x.root.Images(), unix.MNT_DETACH) })
	got := x.withRoot(works)
	if got.Outcome.Action != lifecycle.Suspend || got.Outcome.Code != code.RootNoexec ||
		!strings.HasPrefix(got.Why(), x.root.Images()+" is mounted with the option noexec") {
		t.Errorf("%v: %s", got, got.Why())
	}
}
