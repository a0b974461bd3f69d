package removal

import (
	"path/filepath"
	"testing"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Between the mark and the removal a unit may start an executor, which finds the mark.
func TestARemovalThatAnExecutorCompletedIsComplete(t *testing.T) {
	r := &remover{
		Config:  Config{Root: layout.Root(filepath.Join(t.TempDir(), "gone"))},
		Options: Options{Tombstone: &serverv1.Tombstone{}},
		outcome: &reportv1.CleanUpOutcome{},
	}
	if err := r.complete(); err != nil {
		t.Error(err)
	}
}
