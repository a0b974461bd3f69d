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

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/probe"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// swap moves the links and starts the new version: after the old one was stopped, or
// beside it. A process of the same image may go on, and is told of its configuration.
func (c *change) swap(ctx context.Context) error {
	c.space.ShrinkTo(undoBytes)
	if err := c.makeDirs(); err != nil {
		return err
	}
	if err := c.keepRecord(func() error { return c.records.Begins(c.rec) }); err != nil {
		return err
	}
	if isSelf(c.rec.To) {
		return c.handOver()
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
	if c.overlaps() && !c.inUse() {
		if err := c.leaveOld(); err != nil {
			return err
		}
	}
	if err := c.linkConfig(c.newSide(), c.rec.Rendered); err != nil {
		return err
	}
	c.cfg.FailPoint("configuration linked")
	if c.rec.To.GetKind() != agentv1.Kind_KIND_DAEMON {
		return nil
	}
	if c.resumed && !c.runsAlready() {
		// Whether it said READY=1 while nobody listened cannot be known.
		if err := c.stopSide(c.newSide()); err != nil {
			return err
		}
	}
	return c.startNew(ctx)
}

// overlaps says whether the old version runs until the new one is proven.
func (c *change) overlaps() bool {
	return c.rec.To.GetRun().GetTakeover() == imagev1.Takeover_TAKEOVER_OVERLAP && !c.sameImage()
}

func (c *change) sameImage() bool {
	return c.rec.From != nil && c.rec.From.Image.GetId() == c.rec.To.GetId()
}

// runsAlready says whether the wanted version is the one that runs, from whole files, and
// need not be started anew for what differs; then it is proven again, not restarted.
func (c *change) runsAlready() bool {
	if !c.sameImage() || !c.intactLately(c.rec.From) || c.reloads() == byRestart {
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

func (c *change) startNew(ctx context.Context) error {
	s := c.newSide()
	u, err := c.unitOf(s)
	if err != nil {
		return err
	}
	if c.runsAlready() {
		c.unit = u
		if c.reloads() == bySignal {
			return c.tell(ctx, s)
		}
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
	adopted, err := u.Start()
	if adopted && err == nil && c.notify != nil {
		err = c.takeReady(u)
	}
	if errors.Is(err, syscall.ENOSPC) || fault.RefusalOf(err) != nil {
		return err // not the version's fault, or said already
	} else if err != nil {
		return refuse("NOT_STARTED", "%v", err)
	}
	c.cfg.FailPoint("new started")
	return nil
}

// takeReady has a process that ran already, of which the inventory did not know, count as
// ready if it is known that it was. It said READY=1 long ago and says it no more, so one
// of which that is not known is started anew.
func (c *change) takeReady(u supervise.Unit) error {
	if u.Ready() != nil {
		c.closeNotify()
		return c.save()
	}
	if err := u.Stop(); err != nil {
		return err
	}
	_, err := u.Start()
	return err
}

// openNotify listens for READY=1 when the side's probe is that. The journal knows of the
// socket, so that a crash leaves none behind.
func (c *change) openNotify(s side) error {
	if !s.image.GetRun().GetReady().GetNotify() || c.cfg.Supervisor.Notifies() {
		return nil
	}
	c.closeNotify()
	owner, err := supervise.UserID(s.image.GetRun().GetSandbox().GetUser())
	if err != nil {
		return err
	}
	n, err := probe.ListenNotify(c.notifyPath(s), owner)
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
		if c.idle() {
			return nil
		}
		return c.runOnce(ctx, c.newSide())
	}
	if c.provenAlready(ctx) {
		return nil
	}
	return c.proveSide(ctx, c.newSide(), c.unit)
}

func (c *change) proveSide(ctx context.Context, s side, u supervise.Unit) error {
	ready := u.Ready()
	if c.notify != nil {
		ready = c.notify.Ready()
	}
	p, err := c.probeSpec(s, ready)
	if err != nil {
		return err
	}
	if c.sameImage() && c.reloads() == bySignal && p.Soak != 0 {
		p.Soak = max(p.Soak, heeds)
	}
	err = probe.Prove(ctx, c.patient(p, s), u.Exited())
	if err == nil && c.notify != nil {
		if err := u.SetReady(); err != nil { // it is started anew should the journal be lost
			c.log.Warn().Err(err).Msg("readiness not written")
		}
	}
	if now := u.Status(); err != nil && ctx.Err() == nil && now.Pid == 0 && now.LastEnd != "" {
		return refuse(probe.CodeExited, "%s ended before it was proven: %s", s.agent, now.LastEnd)
	}
	return err
}

// runOnce runs a set-up to its end, within its ready time-out.
func (c *change) runOnce(ctx context.Context, s side) error {
	spec, err := c.spec(s, "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyWithin(s))
	defer cancel()
	if err := c.cfg.Supervisor.RunOnce(spec, ctx.Done()); err != nil {
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
	now := &journal.Instance{
		Agent: c.rec.Agent, ID: c.rec.InstanceID, Generation: c.rec.Generation, Tier: c.rec.Tier,
		Image: c.rec.To, Labels: c.rec.Labels, InstalledAt: time.Now(),
		Metadata: c.rec.Metadata, ConfigurationDigest: c.rec.ConfigurationDigest, Rendered: c.rec.Rendered,
	}
	if err := c.keepRecord(func() error { return c.records.Installed(now) }); err != nil {
		return err
	}
	c.cfg.FailPoint("recorded")
	c.rec.Committed = true
	err := c.cfg.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.PutChange(c.rec), tx.Replace(c.rec.Agent, c.oldImage(), c.rec.To, now.InstalledAt), tx.PutInstance(now))
	})
	if err != nil {
		c.rec.Committed = false
		return fmt.Errorf("%w: %w", errJournal, err)
	}
	return nil
}

func (c *change) oldImage() journal.Manifest {
	if c.rec.From == nil {
		return journal.Manifest{}
	}
	return c.rec.From.Image
}

// undo puts the old version back and proves it, or takes a first install away.
func (c *change) undo(ctx context.Context) error {
	if isSelf(c.rec.To) {
		return c.undoSelf()
	}
	c.closeNotify()
	c.giveBackSpace() // the old one may need it
	if !c.sameImage() || c.reloads() == byRestart || c.toldEnded() {
		if err := c.stopSide(c.newSide()); err != nil {
			return err
		}
	}
	c.cfg.FailPoint("new stopped")
	if c.rec.From == nil {
		return c.undoFirst()
	}
	err := c.bringBack(ctx)
	if errors.Is(err, syscall.ENOSPC) {
		// What the new one takes up is room for the old one.
		if err := c.sweep(ctx); err != nil {
			return err
		}
		err = c.bringBack(ctx)
	}
	return err
}

// bringBack leads the link back and revives the old version.
func (c *change) bringBack(ctx context.Context) error {
	c.rec.NotProven = ""
	if err := errors.Join(c.link(c.rec.From.Image), c.linkConfig(sideOf(c.rec.From), c.rec.From.Rendered)); err != nil {
		return err
	}
	c.cfg.FailPoint("linked back")
	alive, done := c.whileWanted(ctx)
	defer done()
	err := unlessDead(alive, alive.Err())
	if err == nil {
		err = unlessDead(alive, c.reviveOld(alive))
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, errJournal) || errors.Is(err, syscall.ENOSPC) {
		return err
	}
	c.rec.NotProven = oneLine(err)
	c.log.Error().Err(err).Msg("the old version did not prove itself")
	return nil
}

func (c *change) undoFirst() error {
	root, agent := c.cfg.Root, c.rec.Agent
	if !c.rec.Existed {
		return errors.Join(imagedir.RemoveTree(root.Agent(agent)), layout.SyncDir(root.Agents()))
	}
	if err := os.Remove(root.Current(agent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := c.linkConfig(c.newSide(), ""); err != nil {
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
		err = c.startOld(s, u)
	} else if c.sameImage() && c.reloads() == bySignal {
		err = c.tell(ctx, s)
	}
	if err != nil {
		return err
	}
	err = c.proveSide(ctx, s, u)
	c.closeNotify()
	return errors.Join(err, c.keepSide(s))
}

func (c *change) startOld(s side, u supervise.Unit) error {
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
