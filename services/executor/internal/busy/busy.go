// Package busy keeps the critical sections of a server: times in which nothing on it may be changed, as a program on it
// says. A section is a file below the executor's root, so it needs neither the executor nor the bus.
//
//	backup begins a section ── the executor fetches, stages ── waits ── the section ends ── rehearses, switches
//
// Guarantees:
//
//  1. A section ends at its time, and at the latest with its process, if it has one. A process that got another one's
//     id is not that process.
//  2. A section does not begin while a change touches an agent: Begin waits for its end. A change does not touch an
//     agent while a section begins: Pass and Begin exclude each other by a lock of the kernel, which ends with the
//     process that holds it. Begin also waits while a change is open beside an agent, which outlives that process.
//  3. A file that cannot be read is no section, and a change that overruns does not wait for the lock: neither defers
//     changes for ever.
//  4. The time of a section counts from its beginning, not from when Begin was called.
package busy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/wakeup"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// The bounds of sections.
const (
	MaxSections = 64
	MaxReason   = 200
	Longest     = 7 * 24 * time.Hour
	maxBytes    = 4 << 10 // of a file
)

// retryLock is how long a process waits before it asks for the lock again.
const retryLock = 50 * time.Millisecond

// passWithin is how long a change waits for the lock, which a process that begins a section holds for a moment.
const passWithin = time.Second

// Sections are the critical sections below one root.
type Sections struct {
	Root layout.Root
	Boot string // the boot of the machine
}

// Begin begins a section, or takes the place of the one of that name. It waits until no change touches an agent, at
// most until ctx is done. The section's time counts from then on: Begin returns the section as it began.
func (s Sections) Begin(ctx context.Context, x Section) (Section, error) {
	if err := check(x); err != nil {
		return x, err
	}
	lock, err := s.alone(ctx)
	if err != nil {
		return x, err
	}
	defer func() { _ = lock.Close() }()
	now := time.Now()
	x.Since, x.Until = now, now.Add(x.Until.Sub(x.Since))
	if err := os.MkdirAll(s.Root.Busy(), 0o700); err != nil {
		return x, fmt.Errorf("make %s: %w", s.Root.Busy(), err)
	}
	last, err := s.sweep(now)
	if err != nil {
		return x, err
	}
	if len(last) >= MaxSections && !slices.ContainsFunc(last, func(o Section) bool { return o.Name == x.Name }) {
		return x, fault.Refusef(fault.Invalid, code.TooMany,
			"%d critical sections last already; that is the most", len(last)).Try("executor busy list").From("executor")
	}
	data, err := json.Marshal(x)
	if err != nil {
		return x, err
	}
	return x, layout.Write(s.Root.Section(x.Name), data, 0o600)
}

// alone takes the lock once no change is open beside an agent. Such a change outlives the executor's hold on the lock:
// a crash, and the trial of its own update.
func (s Sections) alone(ctx context.Context) (*os.File, error) {
	for {
		lock, err := s.lock(ctx, unix.LOCK_EX)
		if err != nil {
			return nil, err
		}
		open, err := filepath.Glob(s.Root.Changing("*"))
		if err == nil && len(open) == 0 {
			return lock, nil
		}
		if err = errors.Join(err, lock.Close()); err != nil {
			return nil, err
		}
		if wakeup.Pause(ctx, retryLock) != nil {
			return nil, errUnderWay()
		}
	}
}

func errUnderWay() error {
	return fault.Refusef(fault.Conflict, code.ChangeOpen, "a change of an agent is under way, and did not end in time").
		Try("executor status, then try again").From("executor")
}

// check refuses a section that is not valid.
func check(x Section) error {
	if err := ident.CheckName("critical section", x.Name); err != nil {
		return err
	}
	if d := x.Until.Sub(x.Since); d <= 0 || d > Longest {
		return fault.New(fault.Invalid, "a critical section lasts more than 0 and at most %s, not %s", Longest, d)
	}
	if len(x.Reason) > MaxReason {
		return fault.New(fault.Invalid, "the reason has %d bytes; %d are the most", len(x.Reason), MaxReason)
	}
	return nil
}

// End ends the section of a name. It reports whether the section lasted.
func (s Sections) End(name string) (lasted bool, err error) {
	if err := ident.CheckName("critical section", name); err != nil {
		return false, err
	}
	last, err := s.List(time.Now())
	lasted = slices.ContainsFunc(last, func(x Section) bool { return x.Name == name })
	if e := os.Remove(s.Root.Section(name)); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	return lasted, err
}

// List returns the sections that last at a time, by name.
func (s Sections) List(now time.Time) ([]Section, error) {
	var out []Section
	err := s.each(func(_ string, x Section, ok bool) error {
		if ok && x.lasts(now, s.Boot) {
			out = append(out, x)
		}
		return nil
	})
	return out, err
}

// sweep deletes the files of sections that ended, and returns the others. The lock must be held.
func (s Sections) sweep(now time.Time) (last []Section, err error) {
	err = s.each(func(path string, x Section, ok bool) error {
		if ok && x.lasts(now, s.Boot) {
			last = append(last, x)
			return nil
		}
		if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) { // End removes without the lock
			return err
		}
		return nil
	})
	return last, errors.Join(err, layout.SweepTemporary(s.Root.Busy()))
}

// each calls f for each file of a section, by name. ok is false for one that cannot be read.
func (s Sections) each(f func(path string, x Section, ok bool) error) error {
	entries, err := os.ReadDir(s.Root.Busy())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	for _, e := range entries {
		name, is := strings.CutSuffix(e.Name(), layout.SectionSuffix)
		if !is || ident.CheckName("critical section", name) != nil {
			continue
		}
		path := filepath.Join(s.Root.Busy(), e.Name())
		x, ok := read(path)
		err = errors.Join(err, f(path, x, ok && x.Name == name))
	}
	return err
}

func read(path string) (x Section, ok bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxBytes {
		return x, false
	}
	data, err := os.ReadFile(path)
	return x, err == nil && json.Unmarshal(data, &x) == nil && check(x) == nil
}

// Pass lets one change touch agents while no section lasts: no section begins until pass is closed. Otherwise pass is
// nil, and the sections that last are returned: none when one is about to begin. overrun passes although sections last,
// or another process does not let go of the lock.
func (s Sections) Pass(ctx context.Context, overrun bool) (pass *os.File, last []Section, err error) {
	soon, cancel := context.WithTimeout(ctx, passWithin)
	defer cancel()
	switch pass, err = s.lock(soon, unix.LOCK_SH); {
	case err == nil:
	case ctx.Err() != nil || soon.Err() == nil:
		return nil, nil, err
	case !overrun:
		return nil, nil, nil
	default:
		if pass, err = os.Open(s.Root.Home()); err != nil {
			return nil, nil, err
		}
	}
	if last, err = s.List(time.Now()); err != nil || len(last) > 0 && !overrun {
		return nil, last, errors.Join(err, pass.Close())
	}
	return pass, last, nil
}

// lock takes the lock of the sections, at most until ctx is done. It is on a directory that only the executor's user
// may open.
func (s Sections) lock(ctx context.Context, how int) (*os.File, error) {
	f, err := os.Open(s.Root.Home())
	if err != nil {
		return nil, err
	}
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return f, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return nil, errors.Join(fmt.Errorf("lock %s: %w", f.Name(), err), f.Close())
		}
		if wakeup.Pause(ctx, retryLock) != nil {
			return nil, errors.Join(errUnderWay(), f.Close())
		}
	}
}

// Section is one critical section.
type Section struct {
	Name   string    `json:"name"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // it ends then by itself

	// The process with which it ends; 0 for a section without one.
	Pid     int    `json:"pid,omitempty"`
	Started uint64 `json:"process_started,omitempty"` // in clock ticks since the boot
	Boot    string `json:"boot_id,omitempty"`
}

// Of makes a process the one with which the section ends. It reports whether the process runs.
func (s *Section) Of(pid int, boot string) bool {
	started, ok := proctree.StartTime(pid)
	s.Pid, s.Started, s.Boot = pid, started, boot
	return ok
}

// lasts reports whether the section has not ended at a time.
func (s Section) lasts(now time.Time, boot string) bool {
	if !now.Before(s.Until) {
		return false
	}
	if s.Pid == 0 {
		return true
	}
	started, ok := proctree.StartTime(s.Pid)
	return ok && started == s.Started && s.Boot == boot
}

// String describes the section in a few words.
func (s Section) String() string {
	text := "critical section " + s.Name
	if s.Pid > 0 {
		text += fmt.Sprintf(" of process %d", s.Pid)
	}
	if s.Reason != "" {
		text += " (" + s.Reason + ")"
	}
	return text + ", until " + s.Until.UTC().Format(time.RFC3339) + " at the latest"
}
