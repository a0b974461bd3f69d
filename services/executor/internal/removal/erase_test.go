package removal

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

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
