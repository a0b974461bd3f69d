package executor

import (
	"path/filepath"
	"testing"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Between the mark and the removal a unit may start an executor, which finds the mark.
func TestACleanUpThatSomebodyElseFinishedIsFinished(t *testing.T) {
	x := New(Config{})
	x.root = layout.Root(filepath.Join(t.TempDir(), "gone"))
	c := &cleaner{x: x, outcome: &reportv1.CleanUpOutcome{}}
	if err := c.finish(); err != nil {
		t.Error(err)
	}
}
