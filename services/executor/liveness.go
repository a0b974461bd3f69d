package executor

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// alive returns the check of an executor's liveness: the loop of its engine, if it has one, turns,
// and the journal is writable. A full disk or quota is no reason to restart.
func alive(e *engine.Engine, j *journal.Journal) func(context.Context) error {
	return func(ctx context.Context) error {
		if e != nil {
			if err := e.Turn(ctx); err != nil {
				return fmt.Errorf("the engine's loop does not turn: %w", err)
			}
		}
		return unlessFull(j.Update(func(*journal.Tx) error { return nil }))
	}
}

func unlessFull(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return nil
	}
	return err
}
