package engine

import (
	"maps"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// Status is what the engine tells about itself.
type Status struct {
	Applied uint64
	Outbox  int
	Agents  []*reportv1.Found
	Steps   map[string]taskv1.Step // what is being done, by agent
}

// Status looks at everything as it is now.
func (e *Engine) Status() (Status, error) {
	found, err := e.found()
	if err != nil {
		return Status{}, err
	}
	s := Status{Agents: found}
	e.mu.Lock()
	s.Steps = maps.Clone(e.steps)
	e.mu.Unlock()
	return s, e.cfg.Journal.Read(func(tx *journal.Tx) error {
		s.Applied, s.Outbox = tx.Applied(), tx.OutboxLength()
		return nil
	})
}
