package engine

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// dead says whether the document says that the server is dead.
func (e *Engine) dead() bool { return e.document.GetLife() == serverv1.Life_LIFE_DEAD }

// CodeServerDead says that a change was given up because its server is dead.
const CodeServerDead = "SERVER_DEAD"

var errServerDead = refuse(CodeServerDead, "the server is dead")

// hearDeath ends the server's life when a document says so that will be followed: whatever
// is being brought or brought back is given up then, and not proven for as long as it
// might take. Death is for ever, so it may be heard before the document is taken.
func (e *Engine) hearDeath(d *desiredv1.Document) {
	if d.GetLife() != serverv1.Life_LIFE_DEAD || e.cfg.Trial {
		return
	}
	older := true // also when that cannot be read: whoever takes the document finds out
	_ = e.cfg.Journal.Read(func(tx *journal.Tx) error {
		older = lineage.Codes[lineage.Judge(tx.Place(), d)] != ""
		return nil
	})
	if !older && e.cfg.Believe(d) {
		e.die()
	}
}

// whileWanted gives a context that is done as well when the server is dead, unless the
// change then goes on: a removal, and an executor that was proven already.
func (c *change) whileWanted(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.rec.Verb == taskv1.Verb_VERB_REMOVE || c.rec.Proven {
		return ctx, func() { cancel(nil) }
	}
	if c.life.Err() != nil {
		cancel(errServerDead)
	}
	stop := context.AfterFunc(c.life, func() { cancel(errServerDead) })
	return ctx, func() { stop(); cancel(nil) }
}

func died(ctx context.Context) bool { return errors.Is(context.Cause(ctx), errServerDead) }

// unlessDead gives an error, or the server's death where that is behind it. That the journal
// cannot be written is another matter.
func unlessDead(ctx context.Context, err error) error {
	if err != nil && died(ctx) && !errors.Is(err, errJournal) {
		return errServerDead
	}
	return err
}

// Remains is what is left of the agents of a dead server.
type Remains struct {
	Instances int    // with what is still to be deleted of them
	Changes   int    // under way
	Beside    string // what is here and the inventory does not explain; looked for when the rest is gone
}

// bury makes sure that no instance is left, and deletes what only agents needed. It is
// called again after each change, and says each time what is left.
func (e *Engine) bury(ctx context.Context) error {
	var instances []*journal.Instance
	var open []*journal.Change
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		if instances, err = tx.Instances(); err != nil {
			return err
		}
		open, err = tx.Changes()
		return err
	})
	if err != nil {
		return err
	}
	if len(e.busy) > 0 || len(open) > 0 {
		e.cfg.Left(Remains{Instances: len(instances), Changes: max(len(open), len(e.busy))})
		return nil
	}
	trash, err := e.emptyTrash()
	if err != nil {
		return err
	}
	for _, i := range instances {
		a := plan.Action{Removal: &desiredv1.Removal{Agent: i.Agent, InstanceId: i.ID}}
		if at, ok := e.tried[changeID(a)]; ok && time.Since(at) < restAfter || len(e.busy) >= Parallel {
			continue
		}
		if err := e.begin(ctx, a); err != nil {
			return err
		}
	}
	var beside []trace
	if len(instances) == 0 {
		if beside, err = e.beside(); err != nil {
			return err
		}
		beside = slices.DeleteFunc(beside, func(t trace) bool { return t.Trace == serverv1.Trace_TRACE_LINK }) // it does not run
	}
	if len(instances) == 0 && len(beside) == 0 {
		for _, dir := range []string{e.cfg.Root.Cache(), e.cfg.Root.Images(), e.cfg.Root.Agents()} {
			err = errors.Join(err, removeIfOurs(dir))
		}
		if err != nil {
			e.cfg.Log.Warn().Err(err).Msg("not everything was removed")
		}
	}
	e.cfg.Left(Remains{Instances: len(instances) + trash, Changes: len(e.busy), Beside: wordsFor(beside)})
	return nil
}

// removeIfOurs deletes a directory of digests; what somebody else put there stays.
func removeIfOurs(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, d := range entries {
		if len(d.Name()) == 2*digestBytes && strings.Trim(d.Name(), "0123456789abcdef") == "" {
			err = errors.Join(err, imagedir.RemoveTree(dir+"/"+d.Name()))
		}
	}
	_ = os.Remove(dir) // only when it is empty
	return err
}
