package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// make crash-seeds takes minutes, so this is what notices in every run that the code of a seed has moved.
func TestEverySeedAppliesAndCompiles(t *testing.T) {
	source, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range seeds {
		t.Run(s.name, func(t *testing.T) {
			overlay, err := s.write(source, t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			pkg := "./" + filepath.Dir(s.edits[0].file)
			cmd := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, pkg)
			cmd.Dir, cmd.Env = source, append(os.Environ(), "CGO_ENABLED=0") // as other tests build, for the cache
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
}

func TestASeedWhoseCodeMovedIsAnError(t *testing.T) {
	source := t.TempDir()
	if err := os.WriteFile(filepath.Join(source, "code.go"), []byte("f.Sync()\nf.Sync()\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"g.Sync()", "f.Sync()"} { // missing, and more than once
		s := seed{name: "moved", edits: []edit{{"code.go", from, "f.Close()"}}}
		if _, err := s.write(source, t.TempDir()); err == nil {
			t.Errorf("the seed that replaces %s applies, want an error", from)
		}
	}
}
