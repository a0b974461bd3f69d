package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/probe"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// swap moves the link and starts the new version: after the old one was stopped, or beside it.
func (c *change) swap(ctx context.Context) error {
	if err := c.makeDirs(); err != nil {
		return err
	}
	if c.rec.From != nil && !c.overlaps() && !c.runsAlready() {
		if err := errors.Join(c.stopSide(sideOf(c.rec.From)), c.freeSockets()); err != nil {
			return err
		}
	}
	c.cfg.FailPoint("old stopped")
	if err := c.link(c.rec.To); err != nil {
		return err
	}
	c.cfg.FailPoint("linked")
	if c.rec.To.GetKind() != agentv1.Kind_KIND_DAEMON {
		return nil
	}
	if c.resumed && !c.runsAlready() {
		// Whether it said READY=1 while nobody listened cannot be known.
		if err := c.stopSide(c.newSide()); err != nil {
			return err
		}
	}
	return c.startNew()
}

// overlaps says whether the old version runs until the new one is proven.
func (c *change) overlaps() bool {
	return c.rec.To.GetRun().GetTakeover() == imagev1.Takeover_TAKEOVER_OVERLAP && !c.sameImage()
}

func (c *change) sameImage() bool {
	return c.rec.From != nil && c.rec.From.Image.GetId() == c.rec.To.GetId()
}

// runsAlready says whether the wanted version is the one that runs, from whole files;
// then it is proven again, not restarted.
func (c *change) runsAlready() bool {
	if !c.sameImage() || !c.intact(c.rec.From) {
		return false
	}
	u := c.knownUnit(c.rec.Agent, c.rec.To.GetId())
	return u != nil && u.Status().Pid != 0
}

func (c *change) makeDirs() error {
	root, agent := c.cfg.Root, c.rec.Agent
	for dir, mode := range map[string]fs.FileMode{root.State(agent): 0o750, root.Run(agent): 0o700} {
		if err := os.MkdirAll(root.Agent(agent), 0o755); err != nil {
			return fmt.Errorf("make %s: %w", root.Agent(agent), err)
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	if info, err := os.Stat(root.Output(agent)); err == nil {
		c.rec.LogOffset = info.Size()
	}
	return layout.SyncDir(root.Agent(agent))
}

func (c *change) startNew() error {
	s := c.newSide()
	u, err := c.unitOf(s)
	if err != nil {
		return err
	}
	if c.runsAlready() {
		c.unit = u
		return nil
	}
	if err := c.openNotify(s); err != nil {
		return err
	}
	spec, err := c.spec(s, c.rec.Notify)
	if err != nil {
		return err
	}
	u.SetEnv(spec.Env)
	c.unit = u
	if _, err := u.Start(); errors.Is(err, syscall.ENOSPC) {
		return err // not the version's fault
	} else if err != nil {
		return refuse("NOT_STARTED", "%v", err)
	}
	c.cfg.FailPoint("new started")
	return nil
}

// openNotify listens for READY=1 when the side's probe is that. The journal knows of the
// socket, so that a crash leaves none behind.
func (c *change) openNotify(s side) error {
	if !s.image.GetRun().GetReady().GetNotify() {
		return nil
	}
	c.closeNotify()
	n, err := probe.ListenNotify(c.notifyPath(s))
	if err != nil {
		return err
	}
	c.notify, c.rec.Notify = n, n.Path()
	return c.save()
}

func (c *change) closeNotify() {
	if c.notify != nil {
		_ = c.notify.Close()
		c.notify = nil
	} else if c.rec.Notify != "" {
		_ = probe.SweepNotify(c.rec.Notify)
	}
	c.rec.Notify = ""
}

// prove waits until the new version works and stays up.
func (c *change) prove(ctx context.Context) error {
	switch c.rec.To.GetKind() {
	case agentv1.Kind_KIND_FILES:
		_, err := c.images.Whole(c.rec.To.Digest())
		return err
	case agentv1.Kind_KIND_ONESHOT:
		return c.runOnce(ctx, c.newSide())
	}
	return c.proveSide(ctx, c.newSide(), c.unit)
}

func (c *change) proveSide(ctx context.Context, s side, u *supervise.Unit) error {
	p, err := c.probeSpec(s, c.notify)
	if err != nil {
		return err
	}
	err = probe.Prove(ctx, p, u.Exited())
	if err != nil && ctx.Err() == nil && u.Status().LastEnd != "" {
		return refuse(probe.CodeExited, "%s ended before it was proven: %s", s.agent, u.Status().LastEnd)
	}
	return err
}

// runOnce runs a set-up to its end, within its ready time-out.
func (c *change) runOnce(ctx context.Context, s side) error {
	spec, err := c.spec(s, "")
	if err != nil {
		return err
	}
	within := probe.DefaultTimeout
	if ms := s.image.GetRun().GetReady().GetTimeoutMs(); ms != 0 {
		within = time.Duration(ms) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := supervise.RunOnce(spec, ctx.Done()); err != nil {
		return refuse("SETUP_FAILED", "%v", err)
	}
	return nil
}

// commit lets the old version go and makes the change final.
func (c *change) commit(context.Context) error {
	c.closeNotify()
	if c.rec.From != nil && !c.sameImage() {
		if err := c.stopSide(sideOf(c.rec.From)); err != nil {
			return err
		}
	}
	c.cfg.FailPoint("old gone")
	c.rec.Committed = true
	err := c.cfg.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.PutChange(c.rec), tx.PutInstance(&journal.Instance{
			Agent: c.rec.Agent, ID: c.rec.InstanceID, Generation: c.rec.Generation, Tier: c.rec.Tier,
			Image: c.rec.To, Labels: c.rec.Labels, InstalledAt: time.Now(),
		}))
	})
	if err != nil {
		c.rec.Committed = false
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	return nil
}

// undo puts the old version back and proves it, or takes a first install away.
func (c *change) undo(ctx context.Context) error {
	c.closeNotify()
	if !c.sameImage() {
		if err := c.stopSide(c.newSide()); err != nil {
			return err
		}
	}
	c.cfg.FailPoint("new stopped")
	if c.rec.From == nil {
		return c.undoFirst()
	}
	if err := c.link(c.rec.From.Image); err != nil {
		return err
	}
	c.cfg.FailPoint("linked back")
	return c.reviveOld(ctx)
}

func (c *change) undoFirst() error {
	root, agent := c.cfg.Root, c.rec.Agent
	if !c.rec.Existed {
		return errors.Join(imagedir.RemoveTree(root.Agent(agent)), layout.SyncDir(root.Agents()))
	}
	if err := os.Remove(root.Current(agent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return imagedir.RemoveTree(root.Run(agent))
}

// reviveOld brings the old version to where it was, without help from the new one or the network.
func (c *change) reviveOld(ctx context.Context) error {
	s := sideOf(c.rec.From)
	switch s.image.GetKind() {
	case agentv1.Kind_KIND_FILES:
		_, err := c.images.Whole(c.rec.From.Image.Digest())
		return err
	case agentv1.Kind_KIND_ONESHOT:
		return c.runOnce(ctx, s)
	}
	u, err := c.unitOf(s)
	if err != nil {
		return err
	}
	if u.Status().Pid == 0 {
		if err := c.startOld(s, u); err != nil {
			return err
		}
	}
	err = c.proveSide(ctx, s, u)
	c.closeNotify()
	return errors.Join(err, c.keepSide(s))
}

func (c *change) startOld(s side, u *supervise.Unit) error {
	u.Leave() // nobody else starts it meanwhile
	if c.resumed {
		// One that an interrupted undo started may have said READY=1 to nobody.
		if err := u.Stop(); err != nil {
			return err
		}
	}
	if err := c.openNotify(s); err != nil {
		return err
	}
	spec, err := c.spec(s, c.rec.Notify)
	if err != nil {
		return err
	}
	u.SetEnv(spec.Env)
	adopted, err := u.Start()
	if adopted {
		c.closeNotify() // it was ready before; nothing will be said again
	}
	return err
}
