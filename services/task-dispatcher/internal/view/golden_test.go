package view_test

import (
	"flag"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fold/foldtest"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestTheLayoutIsRaisedWhenTheFoldChanges(t *testing.T) {
	foldtest.Golden(t, view.New(nil), view.Layout, view.Nouns, "testdata/fold.golden")
}
