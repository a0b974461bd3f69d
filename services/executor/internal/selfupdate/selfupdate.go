// Package selfupdate replaces the program of this process by the program of an image.
//
// An image of kind self brings a new executor. Its change runs like any other until the switch:
//
//  1. Rehearse: the new program reads a copy of the journal and the server's document, beside this one.
//  2. Trial: this process releases journal, bus and agents, and starts the new program as its child,
//     the candidate, which works in its place. The candidate dies with this process, so there is
//     never more than one executor.
//  3. Commit: a candidate that worked is linked, and this process becomes that program.
//
// Guarantees:
//
//  1. A candidate that does not prove itself never becomes the linked program; this one goes on.
//  2. A program that proved itself and later keeps ending is started at most three times in a row
//     without staying up. After that the version before it runs, or the program that was installed
//     by hand.
//  3. Killed at any instant, the next start runs one whole program.
package selfupdate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/sdnotify"
	"github.com/garrison-fleet/garrison/pkg/wakeup"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/hangup"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// bootstrapVariable names the program that was started from no image, before this process became
// the program of an image. Where it is set, a start follows no link.
const bootstrapVariable = "GARRISON_BOOTSTRAP"

// Config is what a self-update needs.
type Config struct {
	Root        layout.Root
	Args        []string                        // of this process
	URL         string                          // of the bus, where a flag sets it
	ReadBus     func(ctx context.Context) error // connects anew and reads the server's document
	SteadyAfter time.Duration                   // a program that runs so long counts as one that stays up
	Notifier    *sdnotify.Notifier
	Log         zerolog.Logger
	FailPoint   func(point string)
}

// Process is this process, which can become another program. It implements engine.Self. A nil
// Process is part of another program, and cannot be replaced.
type Process struct {
	cfg       Config
	signals   chan os.Signal // those that arrive while the program is replaced
	cancel    func()         // ends the run
	began     time.Time
	candidate *Candidate

	journal *journal.Journal // of the current run
	conn    *bus.Conn

	mu  sync.Mutex
	why string // why this is not the linked program
}

// Start compares this process with the linked program, and becomes that program where it should
// run. cancel ends the run at a signal that arrives while the program is replaced.
func Start(ctx context.Context, c Config, cancel func()) (*Process, error) {
	p := &Process{cfg: c, signals: make(chan os.Signal, 1), cancel: cancel, began: time.Now()}
	signal.Notify(p.signals, stopSignals...)
	var err error
	if p.candidate, err = onTrial(c); err != nil || p.candidate != nil {
		return p, err
	}
	target, program := LinkedProgram(c.Root)
	become, why := decideStart(circumstances{
		Linked: target, There: executable(program), Runs: target != "" && p.Runs(program),
		Started: os.Getenv(bootstrapVariable) != "", Count: readStarts(c.Root)[target],
		Unfit:  journal.Fits(c.Root.Journal()) != nil,
		Before: func() string { return programBefore(c.Root) },
	})
	if become != "" {
		if err := p.become(ctx, filepath.Join(c.Root.Home(), become)); ctx.Err() == nil {
			why = strings.TrimPrefix(why+"; "+err.Error(), "; ")
		}
	}
	if why != "" {
		p.setWhy(why)
		c.Log.Error().Str(logs.Reason, why).Msg("linked program does not run; this one does the work")
	}
	return p, nil
}

// Fixed returns a process that stays the program that it is, for a reason.
func Fixed(c Config, why string) *Process { return &Process{cfg: c, began: time.Now(), why: why} }

// Candidate returns this process as a candidate on trial, or nil.
func (p *Process) Candidate() *Candidate {
	if p == nil {
		return nil
	}
	return p.candidate
}

// IsLinked reports whether this process runs the linked program, and returns the link's target.
func (p *Process) IsLinked() (target string, ok bool) {
	if p == nil || p.candidate != nil {
		return "", false
	}
	target, program := LinkedProgram(p.cfg.Root)
	return target, target != "" && p.Runs(program)
}

// Yields reports whether an engine ended so that another program can run.
func Yields(err error) bool {
	_, handOver := errors.AsType[*engine.HandOver](err)
	_, replace := errors.AsType[*engine.Become](err)
	return handOver || replace
}

// Follow does what a run ended for: a trial, or the replacement of the program. It reports whether
// another run begins in this process.
func (p *Process) Follow(ctx context.Context, err error) (again bool, _ error) {
	if h, ok := errors.AsType[*engine.HandOver](err); ok {
		p.cfg.FailPoint("let go")
		p.cfg.Notifier.Expect(h.Timeout + h.Soak + sdnotify.StartWithin) // the trial, and the start after it
		outcome := p.try(ctx, h)
		p.cfg.FailPoint("tried")
		j, err := journal.Open(p.cfg.Root.Journal())
		if err != nil {
			return false, err
		}
		err = errors.Join(engine.EndTrial(j, h, outcome), j.Close())
		p.cfg.FailPoint("judged")
		return err == nil && ctx.Err() == nil, err
	}
	if r, ok := errors.AsType[*engine.Become](err); ok {
		p.cfg.FailPoint("replace")
		err := p.become(ctx, r.Program)
		if ctx.Err() != nil {
			return false, nil // the next start runs the right program
		}
		p.cfg.Log.Error().Err(err).Msg("program not replaced")
		p.setWhy(err.Error())
		return true, nil
	}
	return false, err
}

// become replaces the program of this process. It returns only when that fails, or when this
// process was stopped. "" is the program that was installed by hand.
func (p *Process) become(ctx context.Context, program string) error {
	bootstrap := os.Getenv(bootstrapVariable)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, bootstrapVariable+"=") })
	if program == "" {
		if program = bootstrap; program == "" {
			return errors.New("the program that was installed by hand is unknown")
		}
	} else {
		if bootstrap == "" {
			path, err := os.Readlink(ownExecutable)
			if err != nil {
				return fmt.Errorf("find this program: %w", err)
			}
			bootstrap = strings.TrimSuffix(path, deletedSuffix)
		}
		env = append(env, bootstrapVariable+"="+bootstrap)
		if err := countStart(p.cfg.Root, p.cfg.Root.ProgramLink(program)); err != nil {
			return fmt.Errorf("count the start: %w", err) // uncounted, it could be started without end
		}
	}
	p.cfg.Log.Info().Str(logs.Path, program).Msg("replacing the program of this process")
	p.cfg.FailPoint("become")
	p.cfg.Notifier.Leave()
	return p.execute(ctx, program, env)
}

const (
	ownExecutable = "/proc/self/exe"
	deletedSuffix = " (deleted)" // of a program that was replaced on the disk
)

// stopSignals are those of rungroup.Signals.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// execute executes a program in this process. No signal to stop is lost: one that came before is
// handled here, and one that comes later ends the process, whichever program it runs by then.
func (p *Process) execute(ctx context.Context, program string, env []string) error {
	signal.Reset(stopSignals...)
	select {
	case <-p.signals:
		p.cancel()
	default:
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := hangup.Exec(program, append([]string{program}, p.cfg.Args[1:]...), env)
	signal.Notify(p.signals, stopSignals...)
	go func() { // for the rest of this process: Reset ended the handler of its main function
		<-p.signals
		p.cancel()
	}()
	return fmt.Errorf("execute %s: %w", program, err)
}

// Bootstrap returns the program that was installed by hand: systemd may start it again at any
// time, also after the image of this process is gone.
func Bootstrap() (string, error) {
	if first := os.Getenv(bootstrapVariable); first != "" {
		return first, nil
	}
	return os.Executable()
}

// For returns what the engine of one run uses; nil in a process that is part of another program.
func (p *Process) For(j *journal.Journal, conn *bus.Conn) engine.Self {
	if p == nil {
		return nil
	}
	p.journal, p.conn = j, conn
	return p
}

// Runs reports whether this process runs a program; "" is the one that was installed by hand.
func (p *Process) Runs(program string) bool {
	if program == "" {
		return os.Getenv(bootstrapVariable) == ""
	}
	own, err := os.Stat(ownExecutable)
	if err != nil {
		return false
	}
	other, err := os.Stat(program)
	return err == nil && os.SameFile(own, other)
}

// Why returns why this is not the linked program, or "".
func (p *Process) Why() string {
	if p == nil {
		return ""
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.why
}

func (p *Process) setWhy(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = why
}

// StartedAt returns when this program began.
func (p *Process) StartedAt() time.Time { return p.began }

// Forget removes the counts of starts.
func (p *Process) Forget() error {
	p.setWhy("")
	if err := os.Remove(p.cfg.Root.Starts()); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("remove the counts of starts: %w", err)
	}
	return layout.SyncDir(p.cfg.Root.Home())
}

// Steady forgets the starts once this program has stayed up. That it reached the bus is not
// enough: a program that ends at each document would be started without end.
func (p *Process) Steady(ctx context.Context) error {
	if err := wakeup.Pause(ctx, p.cfg.SteadyAfter); err != nil {
		return err
	}
	p.stayedUp()
	<-ctx.Done()
	return ctx.Err()
}

// Ended forgets the starts of a program that ended at a stop signal, or because another executor
// holds the root: neither is a fault of the program. It returns err.
func (p *Process) Ended(ctx context.Context, err error) error {
	stopped := err == nil && ctx.Err() != nil
	if p != nil && p.candidate == nil && (stopped || fault.Is(err, fault.Conflict)) {
		p.stayedUp()
	}
	return err
}

func (p *Process) stayedUp() {
	forget := p.Forget
	if p.Why() != "" { // not the linked program: forget its own starts alone
		forget = func() error { return forgetStarts(p.cfg.Root, p.cfg.Root.ProgramLink(p.cfg.Args[0])) }
	}
	if err := forget(); err != nil {
		p.cfg.Log.Warn().Err(err).Msg("starts not forgotten")
	}
}
