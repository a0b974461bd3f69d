package operator

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

func TestAnInterruptedBuildLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		"garrison.yaml": "agent: a\nversion: 1.0.0\nkind: files\n", "file": "x",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr strings.Builder
	env := cli.NewEnv(strings.NewReader(""), &stdout, &stderr, func(string) string { return "" })
	code := run(ctx, env, []string{"image", "build", dir, "-o", filepath.Join(out, "a.gimg")})
	if code != cli.ExitInterrupted || stderr.String() != "garrison: interrupted\n" {
		t.Errorf("exit code %d, %q", code, &stderr)
	}
	if left, err := os.ReadDir(out); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
