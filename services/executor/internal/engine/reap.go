package engine

import (
	"context"
	"errors"
	"os"
	"slices"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/observe"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// Remains is what is left of the agents of a dead server.
type Remains struct {
	Instances int    // with those whose files are still to be deleted
	Changes   int    // under way
	Beside    string // what the inventory does not explain; set when nothing else is left
}

// reap removes the instances of a dead server, and then what only agents needed. It is called
// again after each change, and reports each time what is left.
func (e *Engine) reap(ctx context.Context) error {
	in, err := e.cfg.Journal.Inventory()
	if err != nil {
		return err
	}
	if len(e.busy) > 0 || len(in.Changes) > 0 {
		e.cfg.Left(Remains{Instances: len(in.Instances), Changes: max(len(in.Changes), len(e.busy))})
		return nil
	}
	trash, err := e.emptyTrash()
	if err != nil {
		return err
	}
	for _, i := range in.Instances {
		if err := e.remove(ctx, i); err != nil {
			return err
		}
	}
	var beside []observe.Trace
	if len(in.Instances) == 0 {
		if beside, err = e.rooms.observe.Unexplained(); err != nil {
			return err
		}
		beside = slices.DeleteFunc(beside, func(t observe.Trace) bool { // a link does not run
			return t.Found.Trace == serverv1.Trace_TRACE_LINK
		})
	}
	if len(in.Instances) == 0 && len(beside) == 0 {
		if err := removeDirs(e.cfg.Root); err != nil {
			e.cfg.Log.Warn().Err(err).Msg("not everything was removed")
		}
	}
	e.cfg.Left(Remains{
		Instances: len(in.Instances) + trash, Changes: len(e.busy), Beside: observe.Describe(beside),
	})
	return nil
}

// remove begins the removal of an instance, unless it was tried lately or Parallel changes are
// under way.
func (e *Engine) remove(ctx context.Context, i *change.Instance) error {
	a := plan.Action{Removal: &desiredv1.Removal{Agent: i.Agent, InstanceId: i.ID}}
	if e.rooms.repairs.Rests(changeID(a)) || !e.rooms.deferrals.Take(i.Agent) {
		return nil
	}
	return e.begin(ctx, a)
}

// removeDirs deletes the directories that only agents needed.
func removeDirs(root layout.Root) (err error) {
	for _, dir := range []string{root.Cache(), root.Images(), root.Agents()} {
		err = errors.Join(err, removeDigests(dir))
	}
	return err
}

// removeDigests deletes what is named by a digest in a directory, and the directory when it is
// empty. Other content is not ours.
func removeDigests(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, d := range entries {
		if _, ok := layout.Digest(d.Name()); ok {
			err = errors.Join(err, imagedir.RemoveTree(dir+"/"+d.Name()))
		}
	}
	_ = os.Remove(dir) // only when it is empty
	return err
}
