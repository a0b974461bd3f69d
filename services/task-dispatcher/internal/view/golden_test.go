package view_test

import (
	"flag"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fold/foldtest"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/task-dispatcher/internal/view"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestTheLayoutIsRaisedWhenTheFoldChanges(t *testing.T) {
	foldtest.RestsAreHeard(t, ledger.Dispatcher, view.Nouns)
	foldtest.Golden(t, view.New(nil), view.Layout, view.Nouns, "testdata/fold.golden")
}
