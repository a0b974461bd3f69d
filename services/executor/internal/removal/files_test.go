package removal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

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
