package failover

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

func TestAServerOfTheBusThatEndsByItselfEndsTheRunWithItsLog(t *testing.T) {
	bin := t.TempDir()
	script := "#!/bin/sh\necho the disk is full\nexit 3\n"
	if err := os.WriteFile(filepath.Join(bin, "garrisond"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := rig.New(rig.Options{Bin: bin, Dir: t.TempDir(), Cluster: true})
	if err != nil {
		t.Fatal(err)
	}
	s := &site{Fleet: f}
	err = guarded(t.Context(), f, func(ctx context.Context) error {
		if err := f.Members[1].Start(); err != nil {
			return err
		}
		return s.calm(ctx) // there is no CLI, so it asks until it is ended
	})
	if err == nil || !strings.Contains(err.Error(), "garrisond-2 ended by itself") ||
		!strings.HasSuffix(err.Error(), "the disk is full") {
		t.Errorf("got %v, want why the member ended", err)
	}
}
