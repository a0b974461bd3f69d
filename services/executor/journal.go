package executor

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/strictdir"
	"github.com/garrison-fleet/garrison/pkg/wakeup"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lineage"
)

// openJournal opens the journal of a server, and compares it with the records beside the agents. A
// journal that was lost, is damaged, or is older than those records is rebuilt from them. server is
// empty when it is unknown.
func (x *Executor) openJournal(server string) (*journal.Journal, error) {
	if err := strictdir.Make(x.root.Home(), 0o700); err != nil {
		return nil, err
	}
	j, err := journal.Open(x.root.Journal())
	if err != nil {
		return nil, err
	}
	disk := inventory.Look(x.root, server)
	if !j.Origin().Made {
		why := ""
		err := j.Read(func(tx *journal.Tx) (err error) { why, err = disk.Older(tx); return err })
		if err != nil || why == "" {
			return orClosed(j, err)
		}
		if j, err = j.Renew(why); err != nil {
			return nil, err
		}
	}
	return orClosed(j, x.rebuild(j, disk))
}

func orClosed(j *journal.Journal, err error) (*journal.Journal, error) {
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return j, nil
}

// rebuild fills an empty journal from the disk. The journal keeps why its predecessor was lost until
// it explains everything under the root.
func (x *Executor) rebuild(j *journal.Journal, disk inventory.Disk) error {
	origin := j.Origin()
	if origin.Lost != "" || len(disk.Instances)+len(disk.Changes) > 0 {
		x.cfg.Log.Error().Str(logs.Reason, origin.Lost).Str(logs.Path, origin.Aside).Int("agents", len(disk.Instances)).
			Int("changes", len(disk.Changes)).Msg("journal lost; rebuilding the inventory from the disk")
	}
	if err := disk.Rebuild(j); err != nil {
		return err
	}
	return j.SetNote(journal.NoteServer, disk.Server())
}

const (
	damagedRetry    = time.Second // after damage found while running; doubled each time
	damagedRetryMax = time.Minute
)

// retryDamaged reports whether the executor is to run again with a rebuilt journal, as this one was
// found damaged while running, and waits before that.
func (x *Executor) retryDamaged(ctx context.Context, err error, wait *time.Duration) bool {
	if !errors.Is(err, journal.ErrDamaged) || x.process.Candidate() != nil {
		return false
	}
	x.cfg.Log.Error().Err(err).Msg("journal damaged while running; retrying with a rebuilt one")
	*wait = min(max(damagedRetry, 2**wait), damagedRetryMax)
	_ = wakeup.Pause(ctx, *wait) // when it is stopped, the next run ends at once
	return true
}

// Position is the position of a document in its server's history.
type Position = lineage.Position

// ResetGeneration makes the stopped executor under a root forget which document it took last, and returns which it
// was. It is for a server that took a forged document and no longer takes a true one. A note in the journal keeps what
// was forgotten. It is refused while an executor runs or a change is open.
func ResetGeneration(path string, now time.Time) (was Position, err error) {
	root, err := layout.New(path)
	if err != nil {
		return was, err
	}
	j, err := journal.OpenWhole(root.Journal())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return was, fault.New(fault.NotFound, "no journal at %s", root.Journal())
	case fault.Is(err, fault.Conflict):
		return was, fault.Refusef(fault.Conflict, code.ExecutorRuns, "an executor holds %s", root.Journal()).
			Try("stop the executor, and repeat the command").From("executor")
	case err != nil:
		return was, err
	}
	err = j.Update(func(tx *journal.Tx) error {
		open, err := tx.Changes()
		if err != nil {
			return err
		}
		if len(open) > 0 {
			names := make([]string, len(open))
			for n, c := range open {
				names[n] = c.Agent
			}
			return fault.Refusef(fault.Conflict, code.ChangeOpen, "changes of %s are not finished",
				strings.Join(names, ", ")).Try("start the executor and wait for their end").From("executor")
		}
		was, err = tx.ResetPosition(now)
		return err
	})
	return was, errors.Join(err, j.Close())
}
