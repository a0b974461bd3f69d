//go:build !seed_ackfirst

package engine

import (
	"errors"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// conclude closes changes and says so in one write: neither is there without the other.
func (e *Engine) conclude(say, shut func(*journal.Tx) error) error {
	return e.cfg.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(shut(tx), say(tx))
	})
}
