package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/render"
	"github.com/garrison-fleet/garrison/services/executor/internal/configdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/probe"
)

// maxConfigs is how many files an image may have rendered.
const maxConfigs = 64

// checkConfigs refuses files that would not stay where they belong, or meet each other.
func checkConfigs(run *imagev1.Run) error {
	if len(run.GetConfigs()) > maxConfigs {
		return refuse(CodeInvalidImage, "the image has %d configuration files; %d are the most", len(run.GetConfigs()), maxConfigs)
	}
	seen := map[string]bool{} // paths, and false for the directories that they are in
	for _, c := range run.GetConfigs() {
		path := filepath.Clean(c.GetPath())
		if !localCommand(c.GetTemplate()) || !localCommand(c.GetPath()) || c.GetMode() > 0o777 || c.GetMode() != 0 && c.GetMode()&0o400 == 0 {
			return refuse(CodeInvalidImage, "the configuration file %q from %q with mode %o is not one within the image's own", c.GetPath(), c.GetTemplate(), c.GetMode())
		}
		if _, taken := seen[path]; taken {
			return refuse(CodeInvalidImage, "the configuration file %q is there twice", path)
		}
		seen[path] = true
		for dir := filepath.Dir(path); dir != "."; dir = filepath.Dir(dir) {
			if seen[dir] {
				return refuse(CodeInvalidImage, "the configuration file %q is a directory too", dir)
			}
			seen[dir] = false
		}
	}
	return nil
}

// checkConfiguration looks at the metadata, at every variable, and at what the same image
// has on the disk already.
func (c *change) checkConfiguration() error {
	if !bytes.Equal(metadata.Digest(c.rec.Metadata), c.rec.ConfigurationDigest) {
		return refuse(metadata.CodeBad, "the metadata does not have the digest %x that the document says", c.rec.ConfigurationDigest)
	}
	if _, err := c.fill(c.newSide()); err != nil {
		return err
	}
	switch {
	case !c.sameImage():
	case !c.intact(c.rec.From):
		c.rec.Mends = journal.MendsImage
	case c.misconfigured(c.rec.From) != nil:
		c.rec.Mends = journal.MendsConfiguration
	}
	return nil
}

// render makes the configuration of a side from its image, which is on the disk.
func (e *Engine) render(s side) (configdir.Tree, error) {
	f := e.facts(s)
	t, err := configdir.Render(f.Image, s.image.GetRun(), render.Data{
		Agent: f.Agent, Version: f.Version, Server: f.Server, State: f.State, Image: f.Image,
		Config: e.cfg.Root.Config(s.agent), Labels: f.Labels, Metadata: f.Metadata,
	})
	if err != nil {
		return t, refuse(CodeBadTemplate, "%v", err)
	}
	return t, nil
}

// linkConfig makes a rendered configuration the current one, whole, wherever the link led
// before. It is rendered again when it is not whole: everything for that is on the disk.
func (e *Engine) linkConfig(s side, digest string) error {
	path := e.cfg.Root.Config(s.agent)
	if digest == "" {
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
			return errors.Join(err, layout.SyncDir(filepath.Dir(path)))
		}
		return nil
	}
	dir := e.cfg.Root.Rendered(s.agent, digest)
	if configdir.Check(dir) != nil {
		tree, err := e.render(s)
		if err != nil {
			return err
		}
		if tree.Digest() != digest {
			return fmt.Errorf("the configuration of %s cannot be rendered again as it was", s.agent)
		}
		if err := tree.Place(dir); err != nil {
			return err
		}
	}
	return layout.Link(e.cfg.Root.RenderedLink(digest), path)
}

// misconfigured says why the configuration of an instance is not in place, or nil.
func (e *Engine) misconfigured(i *journal.Instance) error {
	if i.Rendered == "" {
		return nil
	}
	if target, err := os.Readlink(e.cfg.Root.Config(i.Agent)); err != nil || target != e.cfg.Root.RenderedLink(i.Rendered) {
		return errors.New("its link to the configuration is not as it was")
	}
	return configdir.Check(e.cfg.Root.Rendered(i.Agent, i.Rendered))
}

// reloading is what a process of the same image needs to see what differs.
type reloading string

const (
	notAtAll  reloading = ""
	bySignal  reloading = "signal"
	byRestart reloading = "restart"
)

// reloads says what the process needs when the image stays. It is the same before and
// after a crash, since all that it looks at is in the journal.
func (c *change) reloads() reloading {
	was, err := c.fill(sideOf(c.rec.From))
	now, err2 := c.fill(c.newSide())
	switch {
	case err != nil || err2 != nil || !was.Same(now) || c.rec.Mends == journal.MendsImage:
		return byRestart
	case c.inUse() && c.rec.Mends == "":
		return notAtAll
	case c.rec.To.GetRun().GetReload() == imagev1.Reload_RELOAD_SIGNAL:
		return bySignal
	}
	return byRestart
}

// idle says whether what was asked for is there already and runs: metadata changed that
// nothing of the agent is made from.
func (c *change) idle() bool {
	if c.rec.Verb != taskv1.Verb_VERB_CONFIGURE || !c.sameImage() || c.reloads() != notAtAll {
		return false
	}
	return c.rec.To.GetKind() != agentv1.Kind_KIND_DAEMON || c.runsAlready()
}

const (
	// startsUp is how long a process has at least after its start before it gets a signal,
	// which it may not wait for yet.
	startsUp = 500 * time.Millisecond
	// heeds is how long a process is watched at least after a signal: it sees it when it
	// comes to it, which is late on a machine under load, and the end of one that an
	// earlier executor started is noticed late.
	heeds = 2 * time.Second
)

// tell lets a process that goes on see its new configuration. Nobody starts it again
// meanwhile: when it ends, that is how the change went wrong.
func (c *change) tell(ctx context.Context, s side) error {
	u, err := c.unitOf(s)
	if err != nil {
		return err
	}
	u.Leave()
	select {
	case <-time.After(startsUp - time.Since(u.Status().StartedAt)):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.told = u.Status().Pid
	if err := u.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	c.cfg.FailPoint("told")
	return nil
}

// toldEnded says whether another process runs now than the one that got the signal: a
// supervisor may have started it again already, with what made the first one end.
func (c *change) toldEnded() bool {
	if c.reloads() != bySignal {
		return false
	}
	u := c.knownUnit(c.rec.Agent, c.rec.To.GetId())
	return u == nil || u.Status().Pid != c.told
}

// leaveOld lets nobody start the old version again that runs beside the new one, while
// the link leads to what is not its configuration. An undo starts it, with its own.
func (c *change) leaveOld() error {
	if c.rec.From == nil || c.rec.From.Image.GetKind() != agentv1.Kind_KIND_DAEMON {
		return nil
	}
	u, err := c.unitOf(sideOf(c.rec.From))
	if err == nil {
		u.Leave()
	}
	return err
}

// readyWithin is how long a side has to be ready, to run through, or to check itself.
func readyWithin(s side) time.Duration {
	if ms := s.image.GetRun().GetReady().GetTimeoutMs(); ms != 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return probe.DefaultTimeout
}

// provenAlready says whether nothing was changed and the agent is as well as it can be
// told at once.
func (c *change) provenAlready(ctx context.Context) bool {
	if !c.idle() {
		return false
	}
	p, err := c.probeSpec(c.newSide(), nil)
	return err == nil && p.Once(ctx) == nil
}

// sweepConfigs deletes what was rendered and is not the inventory's, and the directory
// that was made for a version that did not come.
func (c *change) sweepConfigs() error {
	var now *journal.Instance
	err := c.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		now, err = tx.Instance(c.rec.Agent)
		return err
	})
	switch {
	case err != nil:
		return err
	case now != nil:
		return c.sweepRendered(c.rec.Agent, now.Rendered)
	case c.rec.Made:
		return errors.Join(imagedir.RemoveTree(c.cfg.Root.Agent(c.rec.Agent)), layout.SyncDir(c.cfg.Root.Agents()))
	case c.rec.Rendered != "":
		return c.sweepRendered(c.rec.Agent, "")
	}
	return nil
}

// sweepAllConfigs deletes what crashes left behind of the configurations of the inventory's agents.
func (e *Engine) sweepAllConfigs() error {
	var instances []*journal.Instance
	err := e.cfg.Journal.Read(func(tx *journal.Tx) (err error) {
		instances, err = tx.Instances()
		return err
	})
	for _, i := range instances {
		err = errors.Join(err, e.sweepRendered(i.Agent, i.Rendered))
	}
	return err
}

// sweepRendered deletes the rendered configurations of an agent but one.
func (e *Engine) sweepRendered(agent, keep string) error {
	dir := e.cfg.Root.Configs(agent)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, d := range entries {
		ours := len(digestsOf([]string{d.Name()})) == 1 || strings.HasPrefix(d.Name(), layout.TemporaryPrefix)
		if ours && d.Name() != keep {
			err = errors.Join(err, imagedir.RemoveTree(filepath.Join(dir, d.Name())))
		}
	}
	if keep == "" {
		_ = os.Remove(dir) // only when it is empty
	}
	return err
}
