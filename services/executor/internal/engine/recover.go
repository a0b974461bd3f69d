package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

// recovery brings the server to a known state after a start: it takes over or starts the
// agents that should run, and finishes or rolls back interrupted changes. It needs only the
// disk.
type recovery struct {
	cfg    Config
	rooms  rooms
	driver *driver
	heard  *heard
	sweep  steps.Sweep
}

func (v recovery) run(ctx context.Context) error {
	in, err := v.cfg.Journal.Inventory()
	if err != nil {
		return err
	}
	if err := v.sweepUnfinished(); err != nil {
		v.cfg.Log.Warn().Err(err).Msg("unfinished files not swept")
	}
	if err := v.countInterruptions(in.Changes); err != nil {
		return err
	}
	v.rooms.sockets.RegainAll(in)
	v.startAll(ctx, in)
	if v.cfg.Trial {
		return nil // the executor that tries this one decides about changes and leftovers
	}
	g, within := errgroup.WithContext(ctx) // one that must stay open ends the others, as it ends the engine
	g.SetLimit(Parallel)
	for _, rec := range in.Changes {
		g.Go(func() error { return v.resume(within, rec) })
	}
	if err := g.Wait(); err != nil || ctx.Err() != nil {
		return err
	}
	if err := errors.Join(v.sweepConfigs(), v.rooms.images.ApplyKeep(nil), v.rooms.images.SweepCopies()); err != nil {
		v.cfg.Log.Warn().Err(err).Msg("configurations and kept versions not swept")
	}
	if err := v.writeRecords(); err != nil {
		v.cfg.Log.Warn().Err(err).Msg("records beside agents not written")
	}
	_, err = v.rooms.trash.Empty(func(string) bool { return true })
	return err
}

// sweepUnfinished deletes what a crash left half written, before anything is written again,
// and the chunks of images that are staged.
func (v recovery) sweepUnfinished() error {
	root := v.cfg.Root
	entries, err := os.ReadDir(root.Agents())
	err = errors.Join(err, layout.SweepTemporary(root.Cache())) // what was reserved
	err = errors.Join(err, layout.SweepProbes(root))
	for _, d := range entries {
		err = errors.Join(err, layout.SweepTemporary(root.Agent(d.Name())), layout.SweepTemporary(root.Run(d.Name())))
	}
	return errors.Join(err, v.rooms.images.SweepUnfinished(root))
}

// startAll starts the agents of the inventory, by tier, except those that a change decides on.
// When the executor is stopped meanwhile, it leaves the rest: each may take its time.
func (v recovery) startAll(ctx context.Context, in journal.Inventory) {
	slices.SortStableFunc(in.Instances, func(a, b *change.Instance) int { return cmp.Compare(a.Tier, b.Tier) })
	for _, i := range in.Instances {
		decides := func(r *change.Record) bool { return r.Agent == i.Agent && r.Touched() }
		if slices.ContainsFunc(in.Changes, decides) {
			continue
		}
		if ctx.Err() != nil && !v.cfg.StopAgents { // agents that end with the executor must be known
			return
		}
		if err := v.rooms.processes.Keep(agent.Installed(i)); err != nil {
			v.cfg.Log.Error().Err(err).Str(logs.Agent, i.Agent).Msg("agent not started")
		}
	}
}

// resume goes on with an interrupted change as its table says.
func (v recovery) resume(ctx context.Context, rec *change.Record) error {
	at, next, exhausted := rec.Recover()
	r := v.driver.newRun(rec, true)
	switch {
	case exhausted:
		v.giveUp(ctx, r, next)
	case next == change.Switching && rec.Interruptions.Crashes > 0 && v.calledOff(ctx, rec):
		v.driver.fail(r, errNotWanted)
		next = rec.Next(at, errNotWanted)
	}
	log := r.Log.Info().Str("was", string(at)).Str("next", string(next)).
		Int("crashes", rec.Interruptions.Crashes).Int("interruptions", rec.Interruptions.Others)
	if next == change.Dropped {
		log.Msg("interrupted change dropped")
		return v.drop(rec)
	}
	log.Msg("interrupted change resumed")
	if at == change.Trial {
		rec.Failure = steps.Failure(taskv1.Step_STEP_PROVE, errInterrupted)
	}
	if err := r.Undisturbed(ctx, v.rooms.deferrals.sections); err != nil {
		r.Log.Warn().Err(err).Msg("critical sections may begin before the change has ended")
	}
	if rec.Touched() && !rec.Committed && !rec.Removes() && !rec.To.IsSelf() {
		v.keepOld(r)
	}
	return v.driver.do(ctx, r, next)
}

var errInterrupted = fault.Refusef(fault.Invalid, code.Interrupted,
	"the executor ended during the trial of the new one")

// drop forgets a change that has not touched its agent, and deletes what it made. If its task
// still stands, the document brings it back.
func (v recovery) drop(rec *change.Record) error {
	err := v.sweep.DropRehearsal(rec)
	if fault.RefusalOf(err).GetCode() == code.Mounted { // no reason to start nothing at all
		v.cfg.Log.Warn().Err(err).Str(logs.Agent, rec.Agent).Msg("what an interrupted change made not deleted")
		err = nil
	}
	if err == nil {
		err = v.cfg.Journal.Update(func(tx *journal.Tx) error {
			return errors.Join(tx.DropChange(rec.Agent), keepInterruptions(tx, rec))
		})
	}
	return errors.Join(err, v.rooms.sockets.Trim(rec.Agent))
}

// keepOld takes over the old version that runs beside the new one in an overlap, or that goes
// on when only its configuration changes.
func (v recovery) keepOld(r *steps.Run) {
	compare := steps.Compare{Processes: v.rooms.processes, Whole: v.rooms.observe.RecentlyWhole}
	goesOn := r.Verb == taskv1.Verb_VERB_CONFIGURE && r.SameImage() && compare.Reload(r.Record) != steps.ReloadRestart
	if r.From == nil || !steps.Overlaps(r.Record) && !goesOn {
		return
	}
	keep := v.rooms.processes.Keep
	if goesOn || r.From.Rendered != r.Rendered {
		keep = v.rooms.processes.TakeOver
	}
	if err := keep(agent.Installed(r.From)); err != nil {
		r.Log.Error().Err(err).Msg("old version not started")
	}
}

// sweepConfigs deletes what crashes left of the configurations of installed agents.
func (v recovery) sweepConfigs() error {
	in, err := v.cfg.Journal.Inventory()
	for _, i := range in.Instances {
		err = errors.Join(err, v.rooms.configs.Sweep(i.Agent, i.Rendered))
	}
	return err
}

// writeRecords writes the records beside agents that are missing, or of another journal. An
// agent whose directory is gone has no place for one.
func (v recovery) writeRecords() error {
	in, err := v.cfg.Journal.Inventory()
	for _, i := range in.Instances {
		if slices.ContainsFunc(in.Changes, func(r *change.Record) bool { return r.Agent == i.Agent }) {
			continue
		}
		one := errors.Join(v.rooms.records.Installed(i), v.rooms.records.Ends(i.Agent))
		if !errors.Is(one, fs.ErrNotExist) {
			err = errors.Join(err, one)
		}
	}
	return err
}

// countInterruptions counts, before anything is started, that the executor ended during the open changes. An executor
// on trial leaves that to the one that runs after it.
func (v recovery) countInterruptions(open []*change.Record) error {
	if len(open) == 0 || v.cfg.Trial {
		return nil
	}
	return v.cfg.Journal.Update(func(tx *journal.Tx) (err error) {
		for _, rec := range open {
			rec.Interrupt()
			err = errors.Join(err, tx.PutChange(rec))
		}
		return err
	})
}

// giveUp writes into the record of a change why it does not go on as it was, and lets what is installed run where the
// change ends at once.
func (v recovery) giveUp(ctx context.Context, r *steps.Run, next change.State) {
	const often = "the executor or its machine ended %d times during this change, last at step %s"
	times := r.Interruptions.Crashes + r.Interruptions.Others
	why := fault.Refusef(fault.Invalid, code.CrashedExecutor, often, times,
		strings.ToLower(strings.TrimPrefix(r.Step.String(), "STEP_")))
	switch {
	case r.Life().End(next):
		r.Log.Error().Err(why).Msg("files of an interrupted change not swept")
		_ = v.driver.steps.settle.Do(ctx, r) // it logs what fails
	case r.Failure == nil:
		v.driver.fail(r, why)
	case next == change.Broken:
		r.RollbackError = change.OneLine(why)
	}
}

// noteInterrupted begins the name under which the journal keeps how often an agent's change was interrupted that was
// dropped: the document brings it back, and its interruptions count on.
const noteInterrupted = "interrupted/"

type interrupted struct {
	ID            string               `json:"id"` // of the change
	Interruptions change.Interruptions `json:"interruptions"`
}

func keepInterruptions(tx *journal.Tx, rec *change.Record) error {
	data, err := json.Marshal(interrupted{rec.ID, rec.Interruptions})
	if err != nil {
		return err
	}
	return tx.SetNote(noteInterrupted+rec.Agent, string(data))
}

func recallInterruptions(tx *journal.Tx, rec *change.Record) {
	var of interrupted
	if json.Unmarshal([]byte(tx.Note(noteInterrupted+rec.Agent)), &of) == nil && of.ID == rec.ID {
		rec.Interruptions = of.Interruptions
	}
}

func forgetInterruptions(tx *journal.Tx, agent string) error {
	return tx.SetNote(noteInterrupted+agent, "")
}

// noteBad begins the name under which the journal keeps which version and configuration of an agent failed here. A
// document that still wants it, because its task ended otherwise for the dispatcher, does not bring it again; a task
// does.
const noteBad = "bad/"

// keepBad keeps that the version of a change failed here, or forgets the one before it that did.
func keepBad(tx *journal.Tx, r *change.Record) error {
	switch f := r.Failure; {
	case r.Removes() && f != nil:
		return nil
	case r.Removes() || f == nil:
		return tx.SetNote(noteBad+r.Agent, "")
	case !r.FailedByVersion():
		return nil
	}
	return tx.SetNote(noteBad+r.Agent, convergenceID(r.InstanceID, r.To.GetId(), r.ConfigurationDigest))
}
