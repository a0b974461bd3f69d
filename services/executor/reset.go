package executor

import (
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// Position is the position of a document in its server's history.
type Position = lineage.Position

// ResetGeneration makes the stopped executor under a root forget which document it took last, and returns which it
// was. It is for a server that took a forged document and no longer takes a true one. A note in the journal keeps what
// was forgotten. It is refused while an executor runs or a change is open.
func ResetGeneration(path string, now time.Time) (was Position, err error) {
	root, err := layout.New(path)
	if err != nil {
		return was, err
	}
	j, err := journal.OpenWhole(root.Journal())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return was, fault.New(fault.NotFound, "no journal at %s", root.Journal())
	case fault.Is(err, fault.Conflict):
		return was, fault.Refusef(fault.Conflict, code.ExecutorRuns, "an executor holds %s", root.Journal()).
			Try("stop the executor, and repeat the command").From("executor")
	case err != nil:
		return was, err
	}
	err = j.Update(func(tx *journal.Tx) error {
		open, err := tx.Changes()
		if err != nil {
			return err
		}
		if len(open) > 0 {
			names := make([]string, len(open))
			for n, c := range open {
				names[n] = c.Agent
			}
			return fault.Refusef(fault.Conflict, code.ChangeOpen, "changes of %s are not finished",
				strings.Join(names, ", ")).Try("start the executor and wait for their end").From("executor")
		}
		was, err = tx.ResetPosition(now)
		return err
	})
	return was, errors.Join(err, j.Close())
}
