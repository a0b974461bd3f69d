package main

import (
	"context"
	"os"
	"path/filepath"
)

// twoVersions creates the agent beacon with versions 1.0.0 and 2.0.0, by the CLI.
func twoVersions(ctx context.Context, w *world) error {
	if _, err := w.CLI(ctx, "agent", "create", "beacon", "--kind", "daemon"); err != nil {
		return err
	}
	program, err := os.ReadFile(filepath.Join(w.Bin, "beacon"))
	if err != nil {
		return err
	}
	for _, version := range []string{"1.0.0", "2.0.0"} {
		dir := filepath.Join(w.Dir, "beacon-"+version)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "beacon"), program, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "garrison.yaml"), []byte(recipe(version)), 0o600); err != nil {
			return err
		}
		if _, err := w.CLI(ctx, "image", "build", dir, "-o", dir+".gimg"); err != nil {
			return err
		}
		if _, err := w.CLI(ctx, "image", "import", dir+".gimg", "--activate"); err != nil {
			return err
		}
	}
	return nil
}

func recipe(version string) string {
	return `agent: beacon
version: ` + version + `
kind: daemon
run:
  command: beacon
  args: ["-listen", "127.0.0.1:${label.port}", "-version", "${version}"]
  takeover: overlap
  ready: {notify: true, timeout: 10s, soak: 100ms}
  stop_timeout: 5s
`
}
