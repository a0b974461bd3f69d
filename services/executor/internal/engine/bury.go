package engine

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/plan"
)

// dead says whether the document says that the server is dead.
func (e *Engine) dead() bool { return e.document.GetLife() == serverv1.Life_LIFE_DEAD }

// bury makes sure that no instance is left, and deletes what only agents needed. It
// waits for changes that are under way, and is called again after each.
func (e *Engine) bury(ctx context.Context) error {
	if len(e.busy) > 0 {
		return nil
	}
	var instances []*journal.Instance
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		instances, err = tx.Instances()
		return err
	})
	if err != nil {
		return err
	}
	begun := 0
	for _, i := range instances {
		a := plan.Action{Removal: &desiredv1.Removal{Agent: i.Agent, InstanceId: i.ID}}
		if at, ok := e.tried[changeID(a)]; ok && time.Since(at) < restAfter || len(e.busy) >= Parallel {
			continue
		}
		if err := e.begin(ctx, a); err != nil {
			return err
		}
		begun++
	}
	if begun > 0 || len(instances) > 0 {
		return nil // it is looked at again when one has ended, or on the timer
	}
	for _, dir := range []string{e.cfg.Root.Cache(), e.cfg.Root.Images(), e.cfg.Root.Agents()} {
		err = errors.Join(err, removeIfOurs(dir))
	}
	if err != nil {
		e.cfg.Log.Warn().Err(err).Msg("not everything was removed")
	}
	return ErrDead
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
