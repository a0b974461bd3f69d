package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// recover brings the server to a known state after a start: agents that should run are
// taken over or started, and changes that a crash interrupted are finished or undone. It
// needs nothing but the disk.
func (e *Engine) recover(ctx context.Context) error {
	var instances []*journal.Instance
	var changes []*journal.Change
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		if instances, err = tx.Instances(); err != nil {
			return err
		}
		changes, err = tx.Changes()
		return err
	})
	if err != nil {
		return err
	}
	if err := e.sweepUnfinished(); err != nil {
		e.cfg.Log.Warn().Err(err).Msg("unfinished files not swept")
	}
	e.regainSockets(instances, changes)
	e.startAll(instances, changes)
	var g errgroup.Group
	g.SetLimit(Parallel)
	for _, rec := range changes {
		g.Go(func() error { return e.resume(ctx, rec) })
	}
	if err := g.Wait(); err != nil || ctx.Err() != nil {
		return err
	}
	if err := e.sweepAll(); err != nil {
		e.cfg.Log.Warn().Err(err).Msg("leftovers not swept")
	}
	return nil
}

// sweepUnfinished deletes the records and links that a crash left half written, before
// anything is written again.
func (e *Engine) sweepUnfinished() error {
	entries, err := os.ReadDir(e.cfg.Root.Agents())
	for _, d := range entries {
		err = errors.Join(err, layout.SweepTemporary(e.cfg.Root.Agent(d.Name())), layout.SweepTemporary(e.cfg.Root.Run(d.Name())))
	}
	return err
}

// startAll starts the agents of the inventory, by tier, except those that a change is
// about to decide on.
func (e *Engine) startAll(instances []*journal.Instance, changes []*journal.Change) {
	slices.SortStableFunc(instances, func(a, b *journal.Instance) int { return cmp.Compare(a.Tier, b.Tier) })
	for _, i := range instances {
		if slices.ContainsFunc(changes, func(c *journal.Change) bool { return c.Agent == i.Agent && touched(c) }) {
			continue
		}
		if err := e.keepSide(sideOf(i)); err != nil {
			e.cfg.Log.Error().Err(err).Str(logs.Agent, i.Agent).Msg("agent not started")
		}
	}
}

// touched says whether an interrupted change had begun to touch the agent itself.
func touched(c *journal.Change) bool {
	return c.Verb == taskv1.Verb_VERB_REMOVE || c.Step >= taskv1.Step_STEP_SWITCH || c.Failure != nil
}

// resume goes on with an interrupted change from the step at which it was.
func (e *Engine) resume(ctx context.Context, rec *journal.Change) error {
	if !touched(rec) {
		// Nothing was changed yet. If the task still stands, the document brings it back.
		e.cfg.Log.Info().Str(logs.Agent, rec.Agent).Str(logs.Task, rec.TaskID).Msg("interrupted change dropped")
		err := e.cfg.Journal.Update(func(tx *journal.Tx) error { return tx.DropChange(rec.Agent) })
		return errors.Join(err, e.trimSockets(rec.Agent))
	}
	c := e.newRun(rec, true)
	c.log.Info().Str(logs.Step, rec.Step.String()).Msg("interrupted change resumed")
	switch {
	case rec.Verb == taskv1.Verb_VERB_REMOVE && !rec.Committed:
		c.finishFrom(ctx, take)
	case rec.Committed:
		c.finishFrom(ctx, nil)
	case rec.Failure != nil:
		c.keepOldBeside()
		c.finishFrom(ctx, nil)
	default:
		c.keepOldBeside()
		c.finishFrom(ctx, bring[4:])
	}
	return nil
}

// keepOldBeside takes over the old version that runs beside the new one in an overlap.
func (c *change) keepOldBeside() {
	if c.rec.From == nil || !c.overlaps() {
		return
	}
	if err := c.keepSide(sideOf(c.rec.From)); err != nil {
		c.log.Error().Err(err).Msg("old version not started")
	}
}
