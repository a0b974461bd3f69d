package steps

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/code"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/store"
)

// Sweep deletes images, chunks and configurations that are no longer needed. What cannot be
// deleted now is found by the next sweep; a change does not fail for it.
type Sweep struct {
	Root    layout.Root
	Images  *store.Images
	Configs agent.Configs
	Journal *journal.Journal
}

// Do implements Step.
func (s Sweep) Do(_ context.Context, r *Run) error {
	r.Release()
	if err := errors.Join(s.configs(r.Record), s.Images.ApplyKeep(r.Record)); err != nil {
		r.Log.Warn().Err(err).Msg("configurations and kept versions not swept")
	}
	for _, digest := range append([][]byte{r.To.Digest(), r.OldImage().Digest()}, r.Unkept...) {
		if len(digest) != layout.DigestBytes || fetchTimedOut(r.Record) {
			continue
		}
		removed, err := s.Images.Remove(digest, func() (bool, error) { return s.Images.Needed(digest, r.Record) })
		if err != nil {
			r.Log.Warn().Err(err).Msg("image not swept")
		}
		if (removed || err != nil) && r.To.Manifest == nil {
			noteRemoved(s.Root, r.Record, s.Root.Image(digest), err)
		}
	}
	if err := s.Images.SweepCopies(); err != nil {
		r.Log.Warn().Err(err).Msg("copies of images not swept")
	}
	return nil
}

// fetchTimedOut reports whether the fetch only ran out of time. Then its chunks stay for the
// next try: on a slow line it would never end otherwise. A document without the image sweeps them.
func fetchTimedOut(r *change.Record) bool {
	f := r.Failure
	return f != nil && f.Step == taskv1.Step_STEP_FETCH && f.Code == code.TimedOut
}

// configs deletes what was rendered and is not installed, and the directory that was made for
// a version that did not come.
func (s Sweep) configs(r *change.Record) error {
	now, err := s.Journal.Instance(r.Agent)
	switch {
	case err != nil:
		return err
	case now != nil:
		return s.Configs.Sweep(r.Agent, now.Rendered)
	case r.DirMade:
		return errors.Join(imagedir.RemoveTree(s.Root.Agent(r.Agent)), layout.SyncDir(s.Root.Agents()))
	case r.Rendered != "":
		return s.Configs.Sweep(r.Agent, "")
	}
	return nil
}

// DropRehearsal deletes what an interrupted change made before its switch.
func (s Sweep) DropRehearsal(r *change.Record) error {
	if r.DirMade {
		return errors.Join(imagedir.RemoveTree(s.Root.Agent(r.Agent)), layout.SyncDir(s.Root.Agents()))
	}
	if r.From == nil {
		return nil
	}
	return s.Configs.Sweep(r.Agent, r.From.Rendered)
}

// Settle keeps the installed version running and closes what it does not listen on. It comes
// after the sweep, which may have made the room that a start needs.
type Settle struct {
	Processes *agent.Processes
	Sockets   *agent.Sockets
	Repairs   *agent.Repairs
}

// Do implements Step.
func (s Settle) Do(_ context.Context, r *Run) error {
	s.Repairs.Ended(r.Record)
	now, err := r.Journal.Instance(r.Agent)
	if err == nil && now != nil {
		failed := filepath.Dir(s.Processes.Root.FailedOutput(r.Agent))
		err = errors.Join(imagedir.RemoveTree(failed), s.Processes.Keep(agent.Installed(now)))
	}
	if err != nil {
		r.Log.Error().Err(err).Msg("agent not started")
	}
	if err := s.Sockets.Trim(r.Agent); err != nil {
		r.Log.Error().Err(err).Msg("sockets not closed")
	}
	return nil
}
