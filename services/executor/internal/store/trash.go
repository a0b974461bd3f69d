package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// ErrJournal reports that the journal cannot be used.
var ErrJournal = errors.New("the journal cannot be used")

// Trash is what removals moved aside and is still to be deleted.
type Trash struct {
	Root    layout.Root
	Journal *journal.Journal
	Log     zerolog.Logger
}

// Of names the directory to which a removal moves an agent's files before it deletes them.
// The name is the same after a crash, and differs between removals.
func (t Trash) Of(r *change.Record) *journal.Trash {
	name := layout.GoneName(ident.From("gone", r.Agent, r.ID, r.BeganAt.UTC().Format(time.RFC3339Nano)))
	return &journal.Trash{Name: name, Agent: r.Agent, InstanceID: r.InstanceID, Since: r.BeganAt}
}

// List returns what is still to be deleted and wanted. An error is ErrJournal.
func (t Trash) List(wanted func(*journal.Trash) bool) (out []*journal.Trash, err error) {
	err = t.Journal.Read(func(tx *journal.Tx) error {
		all, err := tx.Trash()
		for _, x := range all {
			if wanted(x) {
				out = append(out, x)
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrJournal, err)
	}
	return out, nil
}

// Delete deletes what a removal moved aside. The journal keeps it until nothing is left, with
// the reason. An error that is not ErrJournal says what is left.
func (t Trash) Delete(x *journal.Trash) error {
	left := errors.Join(imagedir.RemoveTree(t.Root.Gone(x.Name)), layout.SyncDir(t.Root.Agents()))
	why := ""
	if left != nil {
		why = change.OneLine(left)
	}
	if left != nil && why == x.Why {
		return left
	}
	log := t.Log.With().Str(logs.Agent, x.Agent).Str(logs.Path, x.Name).Logger()
	err := t.Journal.Update(func(tx *journal.Tx) error {
		if left == nil {
			return tx.DropTrash(x.Name)
		}
		x.Why = why
		return tx.PutTrash(x)
	})
	switch {
	case err != nil:
		return errors.Join(ErrJournal, err)
	case left != nil:
		log.Warn().Err(left).Msg("files of a removed agent not deleted; it is retried")
	case x.Why != "":
		log.Info().Msg("files of a removed agent deleted")
	}
	return left
}

// Empty tries again to delete what removals could not, of the wanted agents. It returns how
// much is left; an error is ErrJournal.
func (t Trash) Empty(wanted func(agent string) bool) (left int, err error) {
	all, err := t.List(func(x *journal.Trash) bool { return wanted(x.Agent) })
	for _, x := range all {
		if failed := t.Delete(x); errors.Is(failed, ErrJournal) {
			return left, failed
		} else if failed != nil {
			left++
		}
	}
	return left, err
}
