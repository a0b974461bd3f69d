package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/mounts"
)

// The codes of removals.
const (
	CodeMounted   = mounts.Code
	CodeFilesLeft = "FILES_LEFT"
)

// known says whether the removal is about the instance in the inventory. Anything else is
// left alone: the instance that was meant is gone already, or checkForgotten refuses.
func (c *change) known() bool {
	return c.rec.From != nil && c.rec.From.ID == c.rec.InstanceID && ident.CheckName("agent", c.rec.Agent) == nil
}

// checkRemoval writes down what will be removed, so that the receipt is whole also after a crash.
func (c *change) checkRemoval(context.Context) error {
	if err := c.checkKnown(); err != nil {
		return err
	}
	if !c.known() {
		return c.checkForgotten()
	}
	if len(c.rec.Removed) > 0 {
		return nil
	}
	root, agent := c.cfg.Root, c.rec.Agent
	if err := mounts.Check(root.Agent(agent)); err != nil {
		return err
	}
	paths := []string{root.Current(agent), root.Config(agent), root.Installed(agent)}
	rendered, _ := os.ReadDir(root.Configs(agent)) // what cannot be listed is removed, or said to stay, with its directory
	for _, d := range rendered {
		paths = append(paths, root.Rendered(agent, d.Name()))
	}
	for _, path := range append(paths, root.Configs(agent), root.State(agent), root.Run(agent), root.Agent(agent)) {
		if _, err := os.Lstat(path); err == nil {
			c.removed(path, nil)
		}
	}
	err := c.cfg.Journal.Read(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		for _, k := range kept[agent] {
			c.rec.Unkept = append(c.rec.Unkept, k.Image.Digest())
		}
		return err
	})
	if err != nil {
		return err
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

// setAside moves everything that is to be deleted out of the way in one step: before it the
// agent is whole, and after it the agent is gone, whatever becomes of the files. Then the
// inventory's line goes, and the journal names what is still to be deleted.
func (c *change) setAside(context.Context) error {
	if !c.known() {
		return nil
	}
	dir, trash := c.cfg.Root.Agent(c.rec.Agent), c.trash()
	if err := mounts.Check(dir); err != nil { // since the check, which was before the stop
		return err
	}
	err := os.Rename(dir, c.cfg.Root.Gone(trash.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // before a crash it may have been done
		return fmt.Errorf("set the agent's files aside: %w", err)
	}
	if err := layout.SyncDir(c.cfg.Root.Agents()); err != nil {
		return errors.Join(err, c.putBack(trash))
	}
	c.cfg.FailPoint("set aside")
	if err := c.unlinkSelf(); err != nil {
		return errors.Join(err, c.putBack(trash))
	}
	c.rec.Committed = true
	err = c.cfg.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.PutChange(c.rec), tx.DropInstance(c.rec.Agent), tx.SetKept(c.rec.Agent, nil), tx.PutTrash(trash))
	})
	if err != nil {
		c.rec.Committed = false
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	c.cfg.FailPoint("gone")
	return nil
}

// putBack undoes the move, so that a removal that fails leaves the agent whole.
func (c *change) putBack(t *journal.Trash) error {
	err := os.Rename(c.cfg.Root.Gone(t.Name), c.cfg.Root.Agent(c.rec.Agent))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, layout.SyncDir(c.cfg.Root.Agents()))
}

// deleteAside deletes what this removal set aside, or an earlier one of the same instance.
// What cannot be deleted makes it fail, and is tried again without it.
func (c *change) deleteAside(context.Context) error {
	all, err := c.readTrash(func(t *journal.Trash) bool { return t.InstanceID == c.rec.InstanceID && t.Agent == c.rec.Agent })
	if err != nil {
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	var left error
	for _, t := range all {
		if err := c.deleteTrash(t); errors.Is(err, errJournal) {
			return err
		} else if err != nil {
			c.removed(c.cfg.Root.Gone(t.Name), err)
			left = refuse(CodeFilesLeft, "the agent is gone; what is left of its files cannot be deleted yet: %s", t.Why)
		}
	}
	c.cfg.FailPoint("removed")
	return left
}
