package view_test

import (
	"flag"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fold/foldtest"

	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestAChangedFoldRaisesTheLayout(t *testing.T) {
	foldtest.Golden(t, view.New(), view.Layout, view.Nouns, "testdata/fold.golden")
}
