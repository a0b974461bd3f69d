package engine

import (
	"maps"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// Status is what the engine tells about itself.
type Status struct {
	Applied uint64
	Outbox  int
	Agents  []*reportv1.Found
	Steps   map[string]taskv1.Step // what is being done, by agent
}

// Status looks at everything as it is now, but for the files of images, which the last
// check of health looked at: it is asked for every few seconds. What the inventory does
// not explain, and was not reported yet, is reported then.
func (e *Engine) Status() (Status, error) {
	found, err := e.foundWith(func(digest []byte) (imagedir.Mark, error) {
		return e.images.WholeLately(digest, 2*e.cfg.CheckEvery)
	})
	if err != nil {
		return Status{}, err
	}
	s := Status{Agents: found.GetAgents()}
	e.mu.Lock()
	s.Steps = maps.Clone(e.steps)
	other := e.said != nil && otherTraces(found, e.said)
	e.mu.Unlock()
	if other {
		e.stir() // what is new is reported now, and not with the next check
	}
	return s, e.cfg.Journal.Read(func(tx *journal.Tx) error {
		s.Applied, s.Outbox = tx.Applied(), tx.OutboxLength()
		return nil
	})
}
