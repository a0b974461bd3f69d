package handover

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/e2e/fleet"
)

// Versions are the two between which an agent goes back and forth.
var Versions = [2]string{"1.1.0", "2.1.0"}

// Way is how one version replaces the other.
type Way struct {
	Takeover string // restart or overlap
	Itself   bool   // each version opens its socket by itself, to see what that loses
}

const recipe = `agent: beacon
version: %s
kind: daemon
description: says its version over HTTP
run:
  command: beacon
  args: ["-version", "${version}", "-listen", "127.0.0.1:${label.port}"]
  takeover: %s
  ready: {notify: true, timeout: 10s, soak: 100ms}
  stop_timeout: 10s
`

const socket = `  sockets: [{name: http, listen: "127.0.0.1:${label.port}"}]
`

func (w Way) recipe(version string) []byte {
	out := fmt.Appendf(nil, recipe, version, w.Takeover)
	if !w.Itself {
		out = append(out, socket...)
	}
	return out
}

// Prepare imports both versions of beacon. The agent must be known.
func Prepare(ctx context.Context, f *fleet.Fleet, w Way) error {
	program, err := os.ReadFile(filepath.Join(f.Bin, "beacon"))
	if err != nil {
		return fmt.Errorf("read the agent's program (make builds it): %w", err)
	}
	for _, version := range Versions {
		dir := filepath.Join(f.Dir, "handover-"+version)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "beacon"), program, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "garrison.yaml"), w.recipe(version), 0o600); err != nil {
			return err
		}
		if _, err := f.CLI(ctx, "image", "build", dir, "-o", dir+".gimg"); err != nil {
			return err
		}
		if _, err := f.CLI(ctx, "image", "import", dir+".gimg", "--activate"); err != nil {
			return err
		}
	}
	return nil
}

// Run installs the first version on the fleet's one server and upgrades it back and
// forth, so many times, while clients ask it. told hears of each upgrade.
func Run(ctx context.Context, f *fleet.Fleet, s *fleet.Server, upgrades int, l Load, told func(done int)) (Count, error) {
	if _, err := f.CLI(ctx, "install", "beacon@"+Versions[0], "--on", "all"); err != nil {
		return Count{}, err
	}
	t := Begin(s.URL(), l)
	for n := 1; n <= upgrades; n++ {
		if _, err := f.CLI(ctx, "up", "beacon@"+Versions[n%2], "--on", "all", "--yes"); err != nil {
			return t.Stop(), fmt.Errorf("upgrade %d: %w", n, err)
		}
		told(n)
	}
	return t.Stop(), nil
}
