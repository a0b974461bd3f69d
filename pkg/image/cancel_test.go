package image_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/image"
)

// dying is a context that is done at the check after the next left ones.
type dying struct {
	context.Context
	left int
}

func (d *dying) Err() error {
	if d.left == 0 {
		return context.Canceled
	}
	d.left--
	return nil
}

// The counts of the checks differ with the sizes of reads; a build makes at least one for each entry, link and chunk.
func TestABuildStopsWhereverItsContextEndsAndLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	const entries, links, chunks = 6, 1, 4 // of agentTree
	dir, stopped := agentTree(t), 0
	for ; ; stopped++ {
		out := t.TempDir()
		ctx := &dying{t.Context(), stopped}
		_, err := image.Build(ctx, image.BuildOptions{Dir: dir, Out: filepath.Join(out, "x.gimg")})
		if err == nil {
			break
		}
		if left, _ := os.ReadDir(out); !errors.Is(err, context.Canceled) || len(left) > 0 {
			t.Fatalf("stopped at check %d: %v, left behind: %v", stopped, err, left)
		}
	}
	if least := entries + links + chunks + 4; stopped < least { // the data is read in many pieces
		t.Errorf("the context was checked %d times, want at least %d", stopped, least)
	}
}
