package engine

import (
	"context"
	"errors"
	"os"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/configdir"
	"github.com/garrison-fleet/garrison/services/executor/internal/imagedir"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// CodeBadTemplate refuses a configuration that cannot be rendered, before the old version is touched.
const CodeBadTemplate = "BAD_TEMPLATE"

// rehearse renders the new configuration and lets the new version check itself with it.
func (c *change) rehearse(ctx context.Context) error {
	if err := c.checkPrograms(); err != nil {
		return err
	}
	if isSelf(c.rec.To) {
		return c.rehearseSelf(ctx)
	}
	tree, err := c.render(c.newSide())
	if err != nil {
		return err
	}
	c.rec.Rendered = tree.Digest()
	if _, err := os.Lstat(c.cfg.Root.Agent(c.rec.Agent)); errors.Is(err, os.ErrNotExist) {
		c.rec.Made = true // so whoever gives up, after a crash too, takes it away
	}
	if err := c.save(); err != nil {
		return err
	}
	c.cfg.FailPoint("rendered")
	s := c.newSide()
	if s.config, err = c.placeConfig(tree); err != nil {
		return err
	}
	c.cfg.FailPoint("configuration placed")
	return c.runRehearsal(ctx, s)
}

// placeConfig brings the rendered configuration to the disk and returns its directory; ""
// for none. A configuration that is in use and damaged is placed elsewhere, for the
// rehearsal alone: the switch mends it, of which the journal knows.
func (c *change) placeConfig(tree configdir.Tree) (string, error) {
	if c.rec.Rendered == "" || c.inUse() && c.rec.To.GetRun().GetRehearsal() == nil {
		return "", nil
	}
	dir := c.cfg.Root.Rendered(c.rec.Agent, c.rec.Rendered)
	if c.inUse() && configdir.Check(dir) != nil {
		dir = c.cfg.Root.RehearsedConfig(c.rec.Agent, c.rec.Rendered)
	}
	return dir, tree.Place(dir)
}

// inUse reports whether the new configuration is the one that the old version has.
func (c *change) inUse() bool { return c.rec.From != nil && c.rec.From.Rendered == c.rec.Rendered }

// runRehearsal runs the image's own check, within the time that the agent has to be ready.
func (c *change) runRehearsal(ctx context.Context, s side) error {
	run, err := c.fill(s)
	if err != nil || run.Rehearsal == nil || c.idle() {
		return err
	}
	if err := c.makeDirs(); err != nil {
		return err
	}
	p, err := c.execSpec(s, run.Rehearsal)
	if err != nil {
		return err
	}
	within := readyWithin(s)
	limit, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := p.Run(limit); err != nil && ctx.Err() == nil {
		return refuse(CodeRehearsalFailed, "the new version's own check within %s: %v", within, err)
	}
	return ctx.Err()
}

// checkPrograms looks whether what will be run is there before the old one is stopped for it.
func (c *change) checkPrograms() error {
	run, err := c.fill(c.newSide())
	if err != nil {
		return err
	}
	if c.rec.To.GetKind() != agentv1.Kind_KIND_FILES {
		err = c.checkProgram(run.Command)
	}
	if run.Exec != nil {
		err = errors.Join(err, c.checkProgram(run.Exec.GetCommand()))
	}
	if run.Rehearsal != nil {
		err = errors.Join(err, c.checkProgram(run.Rehearsal.GetCommand()))
	}
	return err
}

func (c *change) checkProgram(command string) error {
	info, err := os.Stat(c.program(c.rec.To.Manifest, command))
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return refuse(CodeInvalidImage, "the command %q is not a program in the image", command)
	}
	return nil
}

// dropRehearsal takes away what an interrupted change made that had not come to its switch.
func (e *Engine) dropRehearsal(rec *journal.Change) error {
	if rec.Made {
		return errors.Join(imagedir.RemoveTree(e.cfg.Root.Agent(rec.Agent)), layout.SyncDir(e.cfg.Root.Agents()))
	}
	if rec.From == nil {
		return nil
	}
	return e.sweepRendered(rec.Agent, rec.From.Rendered)
}
