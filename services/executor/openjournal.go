package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
)

// openJournal opens the journal of a server, and compares it with what is kept beside the
// agents. One that was lost, that is damaged, or that is older than the agents are, is built
// again from there. server is empty when it is not known which one this is.
func (x *Executor) openJournal(server string) (*journal.Journal, error) {
	if err := os.MkdirAll(x.root.Home(), 0o700); err != nil {
		return nil, fmt.Errorf("make %s: %w", x.root.Home(), err)
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

// rebuild fills an empty journal from the disk. Until nothing is here that it does not
// explain, it keeps why the one before it was lost.
func (x *Executor) rebuild(j *journal.Journal, disk inventory.Disk) error {
	origin := j.Origin()
	if origin.Lost != "" || len(disk.Instances)+len(disk.Changes) > 0 {
		x.cfg.Log.Error().Str(logs.Reason, origin.Lost).Str(logs.Path, origin.Aside).Int("agents", len(disk.Instances)).
			Int("changes", len(disk.Changes)).Msg("journal lost; the inventory is built again from the disk")
	}
	if err := disk.Rebuild(j); err != nil {
		return err
	}
	return j.Update(func(tx *journal.Tx) error { return tx.SetNote(noteServer, disk.Server()) })
}

const (
	startAnew    = time.Second // after damage that was met while running; doubled each time
	startAnewMax = time.Minute
)

// anew waits before another life begins with another journal, as the one before was damaged
// while it was worked with. It reports whether one is to begin.
func (x *Executor) anew(ctx context.Context, err error, wait *time.Duration) bool {
	if !errors.Is(err, journal.ErrDamaged) || x.jury != nil {
		return false
	}
	x.cfg.Log.Error().Err(err).Msg("journal damaged while it was worked with; starting again")
	*wait = min(max(startAnew, 2**wait), startAnewMax)
	select {
	case <-ctx.Done():
	case <-time.After(*wait):
	}
	return true
}
