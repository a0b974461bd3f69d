package removal

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Between the mark and the removal a unit may start an executor, which finds the mark.
func TestARemovalThatAnExecutorCompletedIsComplete(t *testing.T) {
	r := &remover{
		Config:  Config{Root: layout.Root(filepath.Join(t.TempDir(), "gone"))},
		Options: Options{Tombstone: &serverv1.Tombstone{}},
		outcome: &reportv1.CleanUpOutcome{},
	}
	if err := r.complete(); err != nil {
		t.Error(err)
	}
}

func TestAServicesFileIsFoundFromItsControlGroup(t *testing.T) {
	etc, lib := t.TempDir(), t.TempDir()
	file := filepath.Join(lib, "garrison-executor.service")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for groups, want := range map[string][]string{
		"0::/system.slice/garrison-executor.service\n":                   {file},
		"1:name=systemd:/system.slice/garrison-executor.service\n0::/\n": {file},
		"0::/system.slice/other.service\n":                               nil,
		"0::/user.slice/user-0.slice/session-1.scope\n":                  nil,
		"": nil,
	} {
		if got := unitFile(groups, etc, lib); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", groups, got, want)
		}
	}
}

// Paths that stay are foreign, or may be Garrison's own.
func TestAPathThatStaysIsForeignUnlessItMayBeAnAgent(t *testing.T) {
	root := layout.Root(t.TempDir())
	for _, dir := range []string{root.Home(), root.Agent("theirs"), root.Agent("lost"), root.Path("notes")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../../images/00", root.Current("lost")); err != nil {
		t.Fatal(err)
	}
	items, err := Inventory(root)
	if err != nil {
		t.Fatal(err)
	}
	foreign := map[string]bool{}
	for _, i := range items {
		if i.LeftBecause != "" {
			foreign[filepath.Base(i.Path)] = i.Foreign()
		}
	}
	want := map[string]bool{
		"theirs": true, "lost": false, "notes": true, "agents": true, filepath.Base(string(root)): true,
	}
	if diff := cmp.Diff(want, foreign); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsMountedStaysInAnUninstall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), ".garrison-tmp-gone-x")
	at := filepath.Join(dir, "disk")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("garrison", at, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	other := filepath.Join(at, "somebody's")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := remove(Item{Path: dir})
	if _, gone := os.Stat(other); gone != nil || fault.RefusalOf(err).GetCode() != code.Mounted {
		t.Errorf("%v; the file: %v", err, gone)
	}
}
