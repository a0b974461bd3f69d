package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestATargetIsAFileThatCanBeWritten(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"": "", file: "", filepath.Join(dir, "new"): "",
		dir: "is not a regular file", "/dev/null": "is not a regular file", link: "is not a regular file",
		filepath.Join(dir, "none", "new"): "Try: mkdir -p " + filepath.Join(dir, "none"),
		filepath.Join(file, "new"):        "cannot write to directory",
		"/proc/new":                       "cannot write to directory /proc: ",
	} {
		err := CheckTarget(path)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: have %v, want %q", path, err, want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
		t.Errorf("%d files are left: %v", len(left), err)
	}
}
