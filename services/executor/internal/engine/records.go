package engine

import (
	"errors"
	"io/fs"
	"syscall"

	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// keepRecord writes a record beside the agent. On a full disk the room that is held for the
// change makes place for it.
func (c *change) keepRecord(write func() error) error {
	err := write()
	if errors.Is(err, syscall.ENOSPC) {
		c.giveBackSpace()
		err = write()
	}
	return err
}

// settleRecord leaves beside the agent what the inventory says, and no change: its end is
// written next.
func (c *change) settleRecord() error {
	var now *journal.Instance
	err := c.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		now, err = tx.Instance(c.rec.Agent)
		return err
	})
	if err == nil && now != nil {
		err = c.records.Installed(now)
	}
	return errors.Join(err, c.records.Ends(c.rec.Agent))
}

// keepRecords writes the records that are missing, or of another journal, when no change
// is open. An agent whose directory is gone has no place for one.
func (e *Engine) keepRecords() error {
	now, err := e.inventory()
	for _, i := range now.instances {
		if now.open[i.Agent] {
			continue
		}
		one := errors.Join(e.records.Installed(i), e.records.Ends(i.Agent))
		if !errors.Is(one, fs.ErrNotExist) {
			err = errors.Join(err, one)
		}
	}
	return err
}
