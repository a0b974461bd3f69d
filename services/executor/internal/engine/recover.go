package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"

	"golang.org/x/sync/errgroup"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
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
	e.startAll(ctx, instances, changes)
	if e.cfg.Trial {
		return nil // the one that tries this executor decides about changes and leftovers
	}
	g, within := errgroup.WithContext(ctx) // one that must stay open ends the others, as it ends the engine
	g.SetLimit(Parallel)
	for _, rec := range changes {
		g.Go(func() error { return e.resume(within, rec) })
	}
	if err := g.Wait(); err != nil || ctx.Err() != nil {
		return err
	}
	if err := errors.Join(e.sweepAllConfigs(), e.applyKeep(nil), e.sweepFresh()); err != nil {
		e.cfg.Log.Warn().Err(err).Msg("configurations and kept versions not swept")
	}
	if err := e.keepRecords(); err != nil {
		e.cfg.Log.Warn().Err(err).Msg("records beside agents not written")
	}
	_, err = e.emptyTrash()
	return err
}

// sweepUnfinished deletes what a crash left half written, before anything is written
// again, and the chunks of images that are staged.
func (e *Engine) sweepUnfinished() error {
	entries, err := os.ReadDir(e.cfg.Root.Agents())
	err = errors.Join(err, layout.SweepTemporary(e.cfg.Root.Cache())) // what was reserved
	for _, d := range entries {
		err = errors.Join(err, layout.SweepTemporary(e.cfg.Root.Agent(d.Name())), layout.SweepTemporary(e.cfg.Root.Run(d.Name())))
	}
	_, caches := e.images.Others()
	for _, digest := range digestsOf(caches) {
		err = errors.Join(err, e.images.DropCache(digest), layout.SweepTemporary(e.cfg.Root.CacheOf(digest)))
	}
	return errors.Join(err, e.images.SweepTemporary())
}

// startAll starts the agents of the inventory, by tier, except those that a change is
// about to decide on. Told to stop, it leaves the rest: each may take its time.
func (e *Engine) startAll(ctx context.Context, instances []*journal.Instance, changes []*journal.Change) {
	slices.SortStableFunc(instances, func(a, b *journal.Instance) int { return cmp.Compare(a.Tier, b.Tier) })
	for _, i := range instances {
		if slices.ContainsFunc(changes, func(c *journal.Change) bool { return c.Agent == i.Agent && c.Touched() }) {
			continue
		}
		if ctx.Err() != nil && !e.cfg.StopAgents { // those that end with it must be known
			return
		}
		if err := e.keepSide(sideOf(i)); err != nil {
			e.cfg.Log.Error().Err(err).Str(logs.Agent, i.Agent).Msg("agent not started")
		}
	}
}

// resume goes on with an interrupted change from the step at which it was.
func (e *Engine) resume(ctx context.Context, rec *journal.Change) error {
	if rec.Renewed && !rec.Touched() {
		return e.resumeRenewal(ctx, rec)
	}
	if !rec.Touched() {
		// Nothing was changed yet. If the task still stands, the document brings it back.
		e.cfg.Log.Info().Str(logs.Agent, rec.Agent).Str(logs.Task, rec.TaskID).Msg("interrupted change dropped")
		err := e.dropRehearsal(rec)
		if fault.RefusalOf(err).GetCode() == CodeMounted { // no reason to start nothing at all
			e.cfg.Log.Warn().Err(err).Str(logs.Agent, rec.Agent).Msg("what an interrupted change made not deleted")
			err = nil
		}
		if err == nil {
			err = e.cfg.Journal.Update(func(tx *journal.Tx) error { return tx.DropChange(rec.Agent) })
		}
		return errors.Join(err, e.trimSockets(rec.Agent))
	}
	if isSelf(rec.To) {
		return e.resumeSelf(ctx, rec)
	}
	c := e.newRun(rec, true)
	c.log.Info().Str(logs.Step, rec.Step.String()).Msg("interrupted change resumed")
	switch {
	case rec.Verb == taskv1.Verb_VERB_REMOVE && !rec.Committed:
		return c.finishFrom(ctx, take)
	case rec.Verb == taskv1.Verb_VERB_REMOVE && rec.Failure == nil:
		return c.finishFrom(ctx, []hook{empty})
	case rec.Committed:
		return c.finishFrom(ctx, nil)
	case rec.Failure != nil:
		c.keepOldBeside()
		return c.finishFrom(ctx, nil)
	}
	c.keepOldBeside()
	return c.finishFrom(ctx, from(taskv1.Step_STEP_SWITCH))
}

// keepOldBeside takes over the old version that runs beside the new one in an overlap, or
// that goes on when only its configuration is changed.
func (c *change) keepOldBeside() {
	goesOn := c.rec.Verb == taskv1.Verb_VERB_CONFIGURE && c.sameImage() && c.reloads() != byRestart
	if c.rec.From == nil || !c.overlaps() && !goesOn {
		return
	}
	keep := c.keepSide
	if goesOn || !c.inUse() {
		keep = c.takeOver
	}
	if err := keep(sideOf(c.rec.From)); err != nil {
		c.log.Error().Err(err).Msg("old version not started")
	}
}

// takeOver takes over a side's process. One that does not run is not started: it would
// read what may not be its own configuration.
func (c *change) takeOver(s side) error {
	if s.image.GetKind() != agentv1.Kind_KIND_DAEMON {
		return nil
	}
	u, err := c.unitOf(s)
	if err != nil {
		return err
	}
	if adopted, err := u.Start(); err != nil || adopted {
		return err
	}
	return c.stopSide(s)
}
