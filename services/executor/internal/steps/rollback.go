package steps

import (
	"context"
	"errors"
	"syscall"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/pkg/visible"
	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// Rollback brings the old version back, or takes a first install away.
type Rollback struct {
	Starter
	Restore RestoreOld
	Sweep   Step // makes room for the old version on a full disk
}

// Do implements Step.
func (s Rollback) Do(ctx context.Context, r *Run) error {
	r.Release() // the old version may need the space
	if !r.SameImage() || s.Compare.Reload(r.Record) == ReloadRestart || s.Compare.Replaced(r) {
		if err := s.Processes.Stop(agent.Coming(r.Record)); err != nil {
			return err
		}
	}
	r.Point("new stopped")
	if r.From == nil {
		return s.Restore.removeFirst(r)
	}
	err := s.Restore.Do(ctx, r)
	if errors.Is(err, syscall.ENOSPC) {
		// What the new version takes up is room for the old one.
		if err := s.Sweep.Do(ctx, r); err != nil {
			return err
		}
		err = s.Restore.Do(ctx, r)
	}
	return err
}

// RestoreOld leads the links back to the old version, starts it and checks its health.
type RestoreOld struct {
	Links
	Starter Starter
	Health  HealthCheck
	Life    *ServerLife
}

// Do implements Step. An old version that fails its health check is no error of the rollback.
func (s RestoreOld) Do(ctx context.Context, r *Run) error {
	r.OldUnhealthy, r.OldOutput = "", ""
	from := supervise.Output(s.Root.Output(r.Agent)).Next()
	old := agent.Installed(r.From)
	if err := errors.Join(s.image(r, r.From.Image), s.Configs.Link(old, r.From.Rendered)); err != nil {
		return err
	}
	r.Point("linked back")
	alive, done := s.Life.While(ctx, r.Record)
	defer done()
	err := Cause(alive, alive.Err())
	if err == nil {
		err = Cause(alive, s.start(alive, r, old))
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrJournal) || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	r.OldUnhealthy = change.OneLine(err)
	r.OldOutput = visible.Line(supervise.LastLine(s.Root.Output(r.Agent), from, r.From.Secrets))
	r.Log.Error().Err(err).Msg("the old version failed its health check after the rollback")
	return nil
}

// start brings the old version to where it was, without the new one and the network.
func (s RestoreOld) start(ctx context.Context, r *Run, old agent.Version) error {
	switch {
	case isKind(old.Image, agentv1.Kind_KIND_FILES):
		_, err := s.Health.Images.Whole(old.Image.Digest())
		return err
	case isKind(old.Image, agentv1.Kind_KIND_ONESHOT):
		return s.Health.setUp(ctx, old)
	}
	u, err := s.Starter.restore(ctx, r, old)
	if err != nil {
		return err
	}
	err = s.Health.await(ctx, r, old, u)
	r.closeNotify()
	return errors.Join(err, s.Starter.Processes.Keep(old))
}

// removeFirst deletes what a first install made, but for its output.
func (s RestoreOld) removeFirst(r *Run) error {
	err := supervise.Output(s.Root.Output(r.Agent)).MoveTo(s.Root.FailedOutput(r.Agent))
	if err != nil {
		r.Log.Warn().Err(err).Msg("output of the failed version not kept")
	}
	if !r.DirExisted {
		return errors.Join(imagedir.RemoveTree(s.Root.Agent(r.Agent)), layout.SyncDir(s.Root.Agents()))
	}
	if err := s.remove(r); err != nil {
		return err
	}
	return imagedir.RemoveTree(s.Root.Run(r.Agent))
}
