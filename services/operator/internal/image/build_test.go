package image

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/image"
)

func TestTheRecipeThatTheHelpShowsIsBuilt(t *testing.T) {
	var recipe strings.Builder
	for line := range strings.Lines(recipeText) {
		if rest, ok := strings.CutPrefix(line, "  "); ok {
			recipe.WriteString(rest)
		}
	}
	dir := t.TempDir()
	for name, content := range map[string]string{
		"beacon": "#!/bin/sh\n", "etc/beacon.conf": "level = {{.metadata.level}}\n",
		image.RecipeName: recipe.String(),
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	m, err := image.Build(t.Context(),
		image.BuildOptions{Dir: dir, Out: filepath.Join(t.TempDir(), "out.gimg"), At: time.Unix(0, 0)})
	if err != nil || m.GetAgent() != "beacon" || m.GetRun().GetReady().GetHttp() == "" {
		t.Errorf("built %v, %v, from\n%s", m, err, recipe.String())
	}
}
