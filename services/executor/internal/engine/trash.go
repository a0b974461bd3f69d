package engine

import (
	"errors"
	"time"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// trash names the directory to which the change moves an agent's files before it deletes
// them. It is the same after a crash, and another one in each removal.
func (c *change) trash() *journal.Trash {
	name := layout.GoneName(ident.From("gone", c.rec.Agent, c.rec.ID, c.rec.BeganAt.UTC().Format(time.RFC3339Nano)))
	return &journal.Trash{Name: name, Agent: c.rec.Agent, InstanceID: c.rec.InstanceID, Since: c.rec.BeganAt}
}

// readTrash gives what is still to be deleted, of those that are wanted.
func (e *Engine) readTrash(wanted func(*journal.Trash) bool) (out []*journal.Trash, err error) {
	err = e.cfg.Journal.Read(func(tx *journal.Tx) error {
		all, err := tx.Trash()
		for _, t := range all {
			if wanted(t) {
				out = append(out, t)
			}
		}
		return err
	})
	return out, err
}

// deleteTrash deletes what a removal set aside. The journal knows of it until nothing is
// left, and why something is. An error that is not errJournal says what is left.
func (e *Engine) deleteTrash(t *journal.Trash) error {
	left := errors.Join(imagedir.RemoveTree(e.cfg.Root.Gone(t.Name)), layout.SyncDir(e.cfg.Root.Agents()))
	why := ""
	if left != nil {
		why = oneLine(left)
	}
	if left != nil && why == t.Why {
		return left
	}
	log := e.cfg.Log.With().Str(logs.Agent, t.Agent).Str(logs.Path, t.Name).Logger()
	err := e.cfg.Journal.Update(func(tx *journal.Tx) error {
		if left == nil {
			return tx.DropTrash(t.Name)
		}
		t.Why = why
		return tx.PutTrash(t)
	})
	switch {
	case err != nil:
		return errors.Join(errJournal, err)
	case left != nil:
		log.Warn().Err(left).Msg("files of a removed agent not deleted; it is tried again")
	case t.Why != "":
		log.Info().Msg("files of a removed agent deleted")
	}
	return left
}

// emptyTrash tries again to delete what removals could not, but for an agent that is being
// changed. An executor on trial leaves it to the one that runs after it. It gives how much
// is left; an error says that the journal cannot be used.
func (e *Engine) emptyTrash() (left int, err error) {
	if e.cfg.Trial {
		return 0, nil
	}
	all, err := e.readTrash(func(t *journal.Trash) bool { return !e.busy[t.Agent] })
	for _, t := range all {
		if failed := e.deleteTrash(t); errors.Is(failed, errJournal) {
			return left, failed
		} else if failed != nil {
			left++
		}
	}
	return left, err
}

// addTrash says of agents that were removed that something of them is left. An agent that
// is there again has its own words.
func (e *Engine) addTrash(found []*reportv1.Found) ([]*reportv1.Found, error) {
	stuck, err := e.readTrash(func(t *journal.Trash) bool { return t.Why != "" })
	named := map[string]bool{}
	for _, f := range found {
		named[f.GetAgent()] = true
	}
	for _, t := range stuck {
		if !named[t.Agent] {
			named[t.Agent] = true
			found = append(found, &reportv1.Found{Agent: t.Agent, InstanceId: t.InstanceID, Health: instancev1.Health_HEALTH_ABSENT, Reason: "it was removed, and what is left of its files cannot be deleted yet: " + t.Why})
		}
	}
	return found, err
}
