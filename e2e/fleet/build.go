package fleet

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
)

// programs are the programs of a fleet and where their source is.
var programs = map[string]string{
	"garrisond":       "deploy/allinone/cmd/garrisond",
	"garrison":        "services/operator/cmd/garrison",
	"registry":        "services/registry/cmd/registry",
	"image-catalog":   "services/image-catalog/cmd/image-catalog",
	"task-dispatcher": "services/task-dispatcher/cmd/task-dispatcher",
	"access":          "services/access/cmd/access",
	"executor":        "services/executor/cmd/executor",
	"garrison-sim":    "services/executor/cmd/garrison-sim",
	"beacon":          "e2e/agents/beacon",
	"demo":            "e2e/cmd/demo",
}

// Programs returns the directory of the programs under test: that of make, which GARRISON_BIN
// names, or a temporary one in which it builds them. The caller calls remove at the end.
func Programs(ctx context.Context) (dir string, remove func(), err error) {
	if dir := os.Getenv("GARRISON_BIN"); dir != "" {
		return dir, func() {}, nil
	}
	if dir, err = os.MkdirTemp("", "garrison-bin-"); err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.RemoveAll(dir) }
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		build := exec.CommandContext(ctx, "go", "build", "-o", filepath.Join(dir, name),
			"github.com/garrison-fleet/garrison/"+programs[name])
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			remove()
			return "", nil, fmt.Errorf("build %s: %w\n%s", name, err, out)
		}
	}
	return dir, remove, nil
}
