package layout_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func TestAFileIsReplacedWholeWithItsMode(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"one", "two"} {
		if err := layout.Write(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	data, _ := os.ReadFile(path)
	info, err := os.Stat(path)
	if err != nil || string(data) != "two" || info.Mode() != 0o600 {
		t.Errorf("%q %v %v", data, info, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("left: %v", left)
	}
}

func TestALinkIsMovedInOneStepAlsoAfterACrash(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "current")
	if err := os.Symlink("half", filepath.Join(dir, layout.TemporaryPrefix+"current")); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"old", "new"} {
		if err := layout.Link(target, path); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.Readlink(path); got != target {
			t.Errorf("leads to %q, want %q", got, target)
		}
	}
}

func TestUnfinishedFilesAreSweptWhateverTheDirectoryIsCalled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "with [brackets]*")
	if err := layout.SweepTemporary(dir); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"kept", layout.TemporaryPrefix + "1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := layout.SweepTemporary(dir); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 || left[0].Name() != "kept" {
		t.Errorf("left: %v", left)
	}
}
