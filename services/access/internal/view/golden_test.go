package view_test

import (
	"flag"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fold/foldtest"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

var _ = flag.Bool("update", false, "write the golden files")

func TestTheLayoutIsRaisedWhenFactsAreFoldedOtherwise(t *testing.T) {
	foldtest.RestsAreHeard(t, ledger.Access, view.Nouns)
	foldtest.Golden(t, view.New(), view.Layout, view.Nouns, "testdata/fold.golden")
}
