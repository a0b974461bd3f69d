package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// known says whether the removal is about the instance in the inventory. Anything else
// is left alone: the instance that was meant is gone already.
func (c *change) known() bool {
	return c.rec.From != nil && c.rec.From.ID == c.rec.InstanceID && ident.CheckName("agent", c.rec.Agent) == nil
}

// checkRemoval writes down what will be removed, so that the receipt is whole also after a crash.
func (c *change) checkRemoval(context.Context) error {
	if !c.known() || len(c.rec.Removed) > 0 {
		return nil
	}
	root, agent := c.cfg.Root, c.rec.Agent
	for _, path := range []string{root.Current(agent), root.State(agent), root.Run(agent), root.Agent(agent)} {
		if _, err := os.Lstat(path); err == nil {
			c.removed(path, nil)
		}
	}
	return c.save()
}

// maxRemoved is how many paths a receipt names.
const maxRemoved = 1000

func (c *change) removed(path string, left error) {
	r := journal.Removed{Path: c.cfg.Root.Relative(path)}
	if left != nil {
		r.LeftBecause = oneLine(left)
	}
	for _, was := range c.rec.Removed {
		if was.Path == r.Path {
			return
		}
	}
	if len(c.rec.Removed) < maxRemoved {
		c.rec.Removed = append(c.rec.Removed, r)
	}
}

// stopAll ends the agent's process.
func (c *change) stopAll(context.Context) error {
	if !c.known() {
		return nil
	}
	return c.stopSide(sideOf(c.rec.From))
}

// removeAll deletes the agent's files, and then the inventory's line.
func (c *change) removeAll(context.Context) error {
	if !c.known() {
		return nil
	}
	root := c.cfg.Root
	err := os.Remove(root.Current(c.rec.Agent)) // the link goes first: without it nothing is installed
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the link: %w", err)
	}
	c.cfg.FailPoint("unlinked")
	if err := errors.Join(imagedir.RemoveTree(root.Agent(c.rec.Agent)), layout.SyncDir(root.Agents())); err != nil {
		return fmt.Errorf("remove the agent's files: %w", err)
	}
	c.cfg.FailPoint("removed")
	c.rec.Committed = true
	err = c.cfg.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.PutChange(c.rec), tx.DropInstance(c.rec.Agent))
	})
	if err != nil {
		c.rec.Committed = false
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	return nil
}
