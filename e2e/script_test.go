package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// The CLI as people use it, against a whole Garrison: each session in testdata/script has one of its own.
func TestScript(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no sessions: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			w := newWorld(t, fleet.Options{}, "alpha", "bravo")
			testscript.Run(t, testscript.Params{
				Files: []string{file},
				Setup: func(e *testscript.Env) error {
					e.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
					e.Setenv("GARRISON_CONTEXT", w.ContextFile())
					e.Setenv("IMAGES", w.Dir)
					return nil
				},
			})
		})
	}
}
