package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/mounts"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
)

// maxRemoved bounds the paths in a receipt.
const maxRemoved = 1000

// installed reports whether the removal is about the instance in the inventory. Anything else
// is left alone: that instance is gone already, or CheckRemoval refuses.
func installed(r *change.Record) bool {
	return r.From != nil && r.From.ID == r.InstanceID && ident.CheckName("agent", r.Agent) == nil
}

// CheckRemoval writes down what will be removed, so that the receipt is whole after a crash.
type CheckRemoval struct {
	Root    layout.Root
	Observe *observe.Observer
	Doubt   func() (why string, err error) // why the inventory is not trusted, or ""
}

// Do implements Step.
func (s CheckRemoval) Do(_ context.Context, r *Run) error {
	if !installed(r.Record) {
		return s.checkUnknown(r.Record)
	}
	if len(r.Removed) > 0 {
		return nil
	}
	root, name := s.Root, r.Agent
	if err := cmp.Or(mounts.Check(root.Agent(name)), layout.Moves(root, name)); err != nil {
		return err
	}
	paths := []string{root.Current(name), root.Config(name), root.Installed(name)}
	rendered, _ := os.ReadDir(root.Configs(name)) // what cannot be listed goes with its directory
	for _, d := range rendered {
		paths = append(paths, root.Rendered(name, d.Name()))
	}
	for _, path := range append(paths, root.Configs(name), root.State(name), root.Run(name), root.Agent(name)) {
		if _, err := os.Lstat(path); err == nil {
			noteRemoved(root, r.Record, path, nil)
		}
	}
	err := r.Journal.Read(func(tx *journal.Tx) error {
		kept, err := tx.Kept()
		for _, k := range kept[name] {
			r.Unkept = append(r.Unkept, k.Image.Digest())
		}
		return err
	})
	if err != nil {
		return err
	}
	return r.Save()
}

// checkUnknown refuses to report an instance as removed that the inventory does not know,
// while something of its agent is on the server or the inventory is not trusted. An agent that
// is installed as another instance has taken the place of the one that is meant.
func (s CheckRemoval) checkUnknown(r *change.Record) error {
	why, err := s.Doubt()
	if err != nil {
		return err
	}
	if why != "" {
		return refuse(code.InventoryUntrusted,
			"the inventory does not know instance %s of agent %s, and is not trusted: %s", r.InstanceID, r.Agent, why)
	}
	if r.From != nil {
		return nil
	}
	here, err := s.Observe.UnexplainedOf(r.Agent)
	if err == nil && len(here) > 0 {
		err = refuse(code.NotInInventory, "the inventory does not know instance %s of agent %s, and it is here: %s",
			r.InstanceID, r.Agent, observe.Describe(here))
	}
	return err
}

// noteRemoved adds a path to the receipt, and why it is left, if it is.
func noteRemoved(root layout.Root, r *change.Record, path string, left error) {
	x := change.Removed{Path: root.Relative(path)}
	if left != nil {
		x.LeftBecause = change.OneLine(left)
	}
	for _, was := range r.Removed {
		if was.Path == x.Path {
			return
		}
	}
	if len(r.Removed) < maxRemoved {
		r.Removed = append(r.Removed, x)
	}
}

// strayWithin is how long programs of a removed agent that left its process tree may take to end.
const strayWithin = 2 * time.Second

// Stop ends the process of an agent that is removed, and every other process that runs a program of its state: a daemon
// that was started without the agent's environment, too. What runs from an image is reported as unmanaged.
type Stop struct {
	Root      layout.Root
	Processes *agent.Processes
}

// Do implements Step.
func (s Stop) Do(_ context.Context, r *Run) error {
	if !installed(r.Record) {
		return nil
	}
	if err := s.Processes.Stop(agent.Installed(r.From)); err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(s.Root.Agent(r.Agent)) // as the kernel names it
	if err != nil {
		return nil // it is gone
	}
	others, err := proctree.EndBelow(strayWithin, dir)
	for _, p := range others {
		r.Log.Warn().Int("pid", p.PID).Str(logs.Path, p.Path()).Msg("a process works in a directory that is removed")
	}
	return err
}

// MoveOut moves everything of the agent aside in one rename: before it the agent is whole, and
// after it the agent is gone. Then the inventory's line goes, and the journal names what is
// still to be deleted.
type MoveOut struct {
	Root  layout.Root
	Trash store.Trash
	Self  SelfLinks
}

// Do implements Step.
func (s MoveOut) Do(_ context.Context, r *Run) error {
	if !installed(r.Record) {
		return nil
	}
	dir, trash := s.Root.Agent(r.Agent), s.Trash.Of(r.Record)
	if err := mounts.Check(dir); err != nil { // again: the first check was before the stop
		return err
	}
	err := os.Rename(dir, s.Root.Gone(trash.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // before a crash it may have been done
		return fmt.Errorf("move the agent's files aside: %w", err)
	}
	if err := layout.SyncDir(s.Root.Agents()); err != nil {
		return err
	}
	r.Point("set aside")
	if r.From.Image.IsSelf() {
		if err := s.Self.Unlink(r); err != nil {
			return err
		}
	}
	r.Committed = true
	err = r.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.PutChange(r.Record), tx.DropInstance(r.Agent), tx.SetKept(r.Agent, nil),
			tx.PutTrash(trash))
	})
	if err != nil {
		r.Committed = false
		return inJournal(err)
	}
	r.Point("gone")
	return nil
}

// MoveBack is the rollback of a removal: it puts the agent's directory back where it was.
type MoveBack struct {
	Root  layout.Root
	Trash store.Trash
}

// Do implements Step.
func (s MoveBack) Do(_ context.Context, r *Run) error {
	err := os.Rename(s.Root.Gone(s.Trash.Of(r.Record).Name), s.Root.Agent(r.Agent))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was not moved
	}
	return errors.Join(err, layout.SyncDir(s.Root.Agents()))
}

// Delete deletes what this removal moved aside, or an earlier one of the same instance. What
// cannot be deleted makes it fail, and is retried without it.
type Delete struct {
	Root  layout.Root
	Trash store.Trash
}

// Do implements Step.
func (s Delete) Do(_ context.Context, r *Run) error {
	all, err := s.Trash.List(func(t *journal.Trash) bool {
		return t.InstanceID == r.InstanceID && t.Agent == r.Agent
	})
	if err != nil {
		return err
	}
	var left error
	for _, t := range all {
		if err := s.Trash.Delete(t); errors.Is(err, ErrJournal) {
			return err
		} else if err != nil {
			noteRemoved(s.Root, r.Record, s.Root.Gone(t.Name), err)
			left = refuse(
				code.FilesLeft, "the agent is gone; what is left of its files cannot be deleted yet: %s", t.Why,
			)
		}
	}
	r.Point("removed")
	return left
}
