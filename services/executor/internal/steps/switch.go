package steps

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/agent"
	"github.com/garrison-fleet/garrison/services/executor/internal/change"
	"github.com/garrison-fleet/garrison/services/executor/internal/inventory"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

// The switch is BeginSwitch, StopOld, MoveLinks and StartNew: it moves the links and starts the
// new version, after the old one was stopped or beside it. A process of the same image may go
// on, and is signalled about its configuration.

// BeginSwitch makes the agent's directories and writes the change beside the agent.
type BeginSwitch struct {
	Root    layout.Root
	Records inventory.Keeper
}

// Do implements Step.
func (s BeginSwitch) Do(_ context.Context, r *Run) error {
	r.space.ShrinkTo(rollbackBytes)
	if err := makeDirs(s.Root, r); err != nil {
		return err
	}
	return r.withRoom(func() error { return s.Records.Begins(r.Record) })
}

func makeDirs(root layout.Root, r *Run) error {
	name := r.Agent
	for dir, mode := range map[string]fs.FileMode{root.State(name): 0o750, root.Run(name): 0o700} {
		if err := os.MkdirAll(root.Agent(name), 0o755); err != nil {
			return fmt.Errorf("make %s: %w", root.Agent(name), err)
		}
		if err := os.MkdirAll(dir, mode); err != nil {
			return fmt.Errorf("make %s: %w", dir, err)
		}
	}
	r.LogOffset = supervise.Output(root.Output(name)).Next()
	return layout.SyncDir(root.Agent(name))
}

// StopOld stops the old version, unless it runs on, and closes sockets for a new version that
// listens by itself.
type StopOld struct {
	Processes *agent.Processes
	Sockets   *agent.Sockets
	Compare   Compare
}

// Do implements Step.
func (s StopOld) Do(_ context.Context, r *Run) error {
	if r.From != nil && !Overlaps(r.Record) && !s.Compare.Runs(r.Record) {
		err := errors.Join(s.Processes.Stop(agent.Installed(r.From)), s.Sockets.FreeFor(agent.Coming(r.Record)))
		if err != nil {
			return err
		}
	}
	r.Point("old stopped")
	return nil
}

// Links moves an agent's links.
type Links struct {
	Root    layout.Root
	Configs agent.Configs
}

// image leads the agent's link to an image, wherever it led before: after a crash it may lead anywhere.
func (l Links) image(r *Run, m change.Manifest) error {
	return layout.Link(l.Root.ImageLink(m.Digest()), l.Root.Current(r.Agent))
}

// remove deletes both links of an agent that was not installed before.
func (l Links) remove(r *Run) error {
	if err := os.Remove(l.Root.Current(r.Agent)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return l.Configs.Link(agent.Coming(r.Record), "")
}

// MoveLinks leads the links to the new image and its configuration.
type MoveLinks struct {
	Links
	Processes *agent.Processes
}

// Do implements Step.
func (s MoveLinks) Do(_ context.Context, r *Run) error {
	if err := s.image(r, r.To); err != nil {
		return err
	}
	r.Point("linked")
	if Overlaps(r.Record) && !configInUse(r.Record) {
		if err := s.leaveOld(r); err != nil {
			return err
		}
	}
	if err := s.Configs.Link(agent.Coming(r.Record), r.Rendered); err != nil {
		return err
	}
	r.Point("configuration linked")
	return nil
}

// leaveOld ends restarts of the old version that runs beside the new one, while the link leads
// to the new configuration. A rollback starts it, with its own.
func (s MoveLinks) leaveOld(r *Run) error {
	if r.From == nil || !r.From.Image.IsDaemon() {
		return nil
	}
	u, err := s.Processes.Unit(agent.Installed(r.From))
	if err == nil {
		u.Leave()
	}
	return err
}

// Commit stops the old version and makes the change final.
type Commit struct {
	Processes *agent.Processes
	Records   inventory.Keeper
}

// Do implements Step.
func (s Commit) Do(_ context.Context, r *Run) error {
	r.closeNotify()
	if r.From != nil && !r.SameImage() {
		if err := s.Processes.Stop(agent.Installed(r.From)); err != nil {
			return err
		}
	}
	r.Point("old gone")
	now := r.Installed(time.Now())
	if r.From != nil && supervise.Lives(r.From.Adopted) && r.SameImage() { // the same process went on
		now.Adopted = r.From.Adopted
	}
	if err := r.withRoom(func() error { return s.Records.Installed(now) }); err != nil {
		return err
	}
	r.Point("recorded")
	r.Committed = true
	err := r.Journal.Update(func(tx *journal.Tx) error {
		return errors.Join(tx.PutChange(r.Record), tx.Replace(r.Agent, r.OldImage(), r.To, now.InstalledAt),
			tx.PutInstance(now))
	})
	r.Committed, r.justCommitted = err == nil, err == nil
	return inJournal(err)
}
