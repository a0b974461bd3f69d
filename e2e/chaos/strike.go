package chaos

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/fault"
)

// strike causes one fault and returns what it was. It waits until a pause or a full disk
// is over.
func (w *World) strike(ctx context.Context, s Strike) (what string, err error) {
	brief := s.For.Round(100 * time.Millisecond)
	switch s.Kind {
	case Kills:
		p := choose(s.Pick, w.everyProcess())
		return "kill " + p.Name, w.killed(p).For(ctx, s.For/4)
	case Pauses:
		p := choose(s.Pick, w.everyProcess())
		return fmt.Sprintf("pause %s for %v", p.Name, brief), fault.Paused(p).For(ctx, s.For)
	case Blackout:
		return "kill everything", w.killed(w.everyProcess()...).For(ctx, 0)
	case Snapshots:
		return w.hitSnapshots(ctx, s.Pick)
	case Journals:
		return w.damageJournal(s.Pick)
	case Agents:
		return w.hitAgent(ctx, s)
	case Drift:
		return w.drift(s.Pick)
	case FullDisk:
		return w.fillDisk(ctx, s)
	case ReadOnly:
		return coverRoot(ctx, w, s)
	case Ports:
		return holdPort(ctx, w, s)
	case Strays:
		return stray(w, s.Pick)
	case CutOffs:
		return cutOff(ctx, w, s)
	}
	return "", fmt.Errorf("no strike of kind %s", s.Kind)
}

func choose[T any](pick uint64, of []T) T { return of[pick%uint64(len(of))] }

// killed kills processes, all at once, and starts them again; the bus first, when it is among them.
func (w *World) killed(processes ...*rig.Process) fault.Fault {
	f := fault.Killed(processes...)
	f.End = func() error {
		var errs []error
		for _, p := range processes {
			errs = append(errs, w.revive(p))
		}
		return errors.Join(errs...)
	}
	return f
}

// revive starts a process that does not run, unless it is the executor of a server that
// uninstalled itself.
func (w *World) revive(p *rig.Process) error {
	for _, s := range w.Servers() {
		if s.Executor == p && !s.Joined() {
			return nil
		}
	}
	return p.Revive()
}

// hitSnapshots stops the control plane, which writes snapshots, damages them, and starts it again.
func (w *World) hitSnapshots(ctx context.Context, pick uint64) (string, error) {
	all := w.Processes()
	var errs []error
	for _, p := range slices.Backward(all) {
		errs = append(errs, p.Stop())
	}
	done, err := w.damageSnapshots(pick)
	errs = append(errs, err, w.StartBus(ctx))
	for _, p := range all[1:] {
		errs = append(errs, p.Revive())
	}
	return "snapshots " + strings.Join(done, ", "), errors.Join(errs...)
}

// damageSnapshots damages the snapshots of all services' views.
func (w *World) damageSnapshots(pick uint64) (done []string, err error) {
	err = filepath.WalkDir(w.ViewsDir(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		pick = pick*6364136223846793005 + 1
		way, err := fault.DamageFile(path, "", pick>>33)
		done = append(done, filepath.Base(path)+" "+string(way))
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // no service stopped properly yet
	}
	return done, err
}

// damageJournal kills an executor, damages its journal, and starts it again.
func (w *World) damageJournal(pick uint64) (string, error) {
	s := choose(pick, w.staying())
	if err := s.Executor.Kill(); err != nil {
		return "", err
	}
	path := journalOf(s)
	way, err := fault.DamageFile(path, path+oldSuffix, pick>>8)
	return fmt.Sprintf("journal of %s %s", s.Name, way), errors.Join(err, w.revive(s.Executor))
}

// oldSuffix marks the copy of a journal that is taken at the start of a round.
const oldSuffix = ".chaos-old"

func journalOf(s *rig.Server) string { return filepath.Join(s.Root, "executor", "journal.db") }

// keepJournals copies the journals while all is quiet, so that a fault can set them back.
func (w *World) keepJournals() error {
	for _, s := range w.staying() {
		data, err := os.ReadFile(journalOf(s))
		if err != nil {
			return err
		}
		if err := os.WriteFile(journalOf(s)+oldSuffix, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) dropJournals() error {
	var errs []error
	for _, s := range w.staying() {
		if err := os.Remove(journalOf(s) + oldSuffix); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// hitAgent kills or pauses an agent's process.
func (w *World) hitAgent(ctx context.Context, s Strike) (string, error) {
	pids, err := w.AgentProcesses()
	if err != nil || len(pids) == 0 {
		return "no agent to hit", err
	}
	pid := choose(s.Pick, pids)
	if s.Pick>>32%2 == 0 {
		return fmt.Sprintf("kill agent %d", pid), fault.KilledAgent(pid).Start()
	}
	what := fmt.Sprintf("pause agent %d for %v", pid, s.For.Round(100*time.Millisecond))
	return what, fault.PausedAgent(pid).For(ctx, s.For)
}

// fillDisk fills a disk, restarts or upgrades what lives on it, and empties it again.
func (w *World) fillDisk(ctx context.Context, s Strike) (string, error) {
	if len(w.disks) == 0 {
		return "skipped: no disk that can be filled", nil
	}
	d := choose(s.Pick, w.disks)
	full := d.Full()
	err := full.Start()
	_ = rig.Sleep(ctx, s.For/2)
	what := fmt.Sprintf("disk of %s full for %v", d.Whose, s.For.Round(100*time.Millisecond))
	if s.Pick>>32%2 == 0 { // also across a restart
		p := w.onDisk(d)
		what += ", " + p.Name + " killed meanwhile"
		err = errors.Join(err, w.killed(p).For(ctx, 0))
	}
	_ = rig.Sleep(ctx, s.For/2)
	return what, errors.Join(err, full.Stop())
}

// onDisk returns the process whose data a disk holds.
func (w *World) onDisk(d *fault.Disk) *rig.Process {
	for _, s := range w.Servers() {
		if s.Name == d.Whose {
			return s.Executor
		}
	}
	return w.Garrisond
}
