//go:build seed_ackfirst

package engine

import "github.com/garrison-fleet/garrison/services/executor/internal/journal"

// A bug on purpose, for make crash-seeds: the end is said before the journal knows of it.
func (e *Engine) conclude(say, shut func(*journal.Tx) error) error {
	if err := e.cfg.Journal.Update(say); err != nil {
		return err
	}
	return e.cfg.Journal.Update(shut)
}
