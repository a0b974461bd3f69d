package executor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// bootstrapVariable says which program was started, from no image, before this process
// became the program of an image. Where it is set, a start looks at no link.
const bootstrapVariable = "GARRISON_BOOTSTRAP"

const (
	busWithin      = 10 * time.Second // how long a bus that is away is waited for
	rehearseWithin = 30 * time.Second
	maxLastWords   = 4 << 10
	maxBecause     = 1 << 10 // of these in a reason
	ownExecutable  = "/proc/self/exe"
	deletedSuffix  = " (deleted)" // of a program that was replaced on the disk
)

// self is the process, as the engine and a start see it. It is nil in a process that is
// not only an executor.
type self struct {
	root        layout.Root
	manager     *manager
	signals     chan os.Signal // what was told to this process while it becomes another program
	cancel      func()         // ends the run
	cfg         Config
	log         zerolog.Logger
	began       time.Time
	steadyAfter time.Duration

	journal *journal.Journal // of the life that goes on
	conn    *bus.Conn

	mu  sync.Mutex
	why string // why this is not the program to which the link leads
}

// begin looks at the start whether this process is the program that should run, and
// becomes that program when it is not.
func (x *Executor) begin(ctx context.Context, cancel func()) error {
	if x.cfg.Args == nil {
		return nil
	}
	x.self = &self{root: x.root, manager: x.manager, cfg: x.cfg, log: x.cfg.Log, began: time.Now(), steadyAfter: x.cfg.SteadyAfter}
	x.self.signals, x.self.cancel = make(chan os.Signal, 1), cancel
	signal.Notify(x.self.signals, stopSignals...)
	var err error
	if x.jury, err = onTrial(x.cfg); err != nil || x.jury != nil {
		return err
	}
	target, program := linkedProgram(x.root)
	become, why := decide(circumstances{
		Linked: target, There: executable(program), Runs: target != "" && x.self.Runs(program),
		Started: os.Getenv(bootstrapVariable) != "", Count: readStarts(x.root)[target], Unfit: journal.Fits(x.root.Journal()) != nil,
		Before: func() string { return programBefore(x.root) },
	})
	if become != "" {
		if err := x.self.become(ctx, filepath.Join(x.root.Home(), become)); ctx.Err() == nil {
			why = strings.TrimPrefix(why+"; "+err.Error(), "; ")
		}
	}
	if why != "" {
		x.self.mu.Lock()
		x.self.why = why
		x.self.mu.Unlock()
		x.cfg.Log.Error().Str(logs.Reason, why).Msg("the program of the image does not run; this one does the work")
	}
	return nil
}

// follow does what a life ended with. It says whether another life begins in this process.
func (x *Executor) follow(ctx context.Context, err error) (again bool, _ error) {
	if h, ok := errors.AsType[*engine.HandOver](err); ok {
		x.cfg.FailPoint("let go")
		x.manager.expect(h.Timeout + h.Soak + startWithin) // the trial, and the start after it
		v := x.try(ctx, h)
		x.cfg.FailPoint("tried")
		j, err := journal.Open(x.root.Journal())
		if err != nil {
			return false, err
		}
		err = errors.Join(engine.Judge(j, h, v), j.Close())
		x.cfg.FailPoint("judged")
		return err == nil && ctx.Err() == nil, err
	}
	if r, ok := errors.AsType[*engine.Replace](err); ok {
		x.cfg.FailPoint("replace")
		err := x.self.become(ctx, r.Program)
		if ctx.Err() != nil {
			return false, nil // whoever starts it again starts the right one
		}
		x.cfg.Log.Error().Err(err).Msg("this process stays what it is")
		x.self.mu.Lock()
		x.self.why = err.Error()
		x.self.mu.Unlock()
		return true, nil
	}
	return false, err
}

// givesPlace says whether an engine ended for another program.
func givesPlace(err error) bool {
	_, handOver := errors.AsType[*engine.HandOver](err)
	_, replace := errors.AsType[*engine.Replace](err)
	return handOver || replace
}

// become replaces the program of this process and returns only when that cannot be done,
// or when this process was told to stop. "" is the program that was started, from no image.
func (s *self) become(ctx context.Context, program string) error {
	bootstrap := os.Getenv(bootstrapVariable)
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, bootstrapVariable+"=") })
	if program == "" {
		if program = bootstrap; program == "" {
			return errors.New("it is not known which program was started first")
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
		if err := countStart(s.root, s.root.ProgramLink(program)); err != nil {
			return fmt.Errorf("count the start: %w", err) // uncounted, it might be started for ever
		}
	}
	s.log.Info().Str(logs.Path, program).Msg("this process becomes another program")
	s.cfg.FailPoint("become")
	s.manager.leave()
	return s.execute(ctx, program, env)
}

// stopSignals are what lifecycle.Signals hears.
var stopSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM}

// execute executes a program in this process. A signal to stop is not lost: one that came
// before is seen here, and one that comes later ends the process, whichever program it is by then.
func (s *self) execute(ctx context.Context, program string, env []string) error {
	signal.Reset(stopSignals...)
	select {
	case <-s.signals:
		s.cancel()
	default:
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := syscall.Exec(program, append([]string{program}, s.cfg.Args[1:]...), env)
	signal.Notify(s.signals, stopSignals...)
	go func() { // for the rest of this process's life: the one who listened before does not hear any more
		<-s.signals
		s.cancel()
	}()
	return fmt.Errorf("execute %s: %w", program, err)
}

// with gives what the engine asks, for one life; nil in a process that is not only an executor.
func (s *self) with(j *journal.Journal, conn *bus.Conn) engine.Self {
	if s == nil {
		return nil
	}
	s.journal, s.conn = j, conn
	return s
}

// Runs says whether this process runs a program; "" is the one that was started, from no image.
func (s *self) Runs(program string) bool {
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

// Why says why this is not the program to which the link leads, or is "".
func (s *self) Why() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.why
}

// StartedAt is when this program began.
func (s *self) StartedAt() time.Time { return s.began }

// Forget forgets how often the program was started.
func (s *self) Forget() error {
	s.mu.Lock()
	s.why = ""
	s.mu.Unlock()
	if err := os.Remove(s.root.Starts()); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("forget the starts: %w", err)
	}
	return layout.SyncDir(s.root.Home())
}

// steady forgets the starts once this program has stayed up. That it reached the bus is
// not enough: one that ends at each document would be started for ever.
func (s *self) steady(ctx context.Context) error {
	timer := time.NewTimer(s.steadyAfter)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	s.stayedUp()
	<-ctx.Done()
	return ctx.Err()
}

// ended forgets the starts of a program that ended because it was told to, or because
// another executor works here: neither says anything against the program.
func (s *self) ended(ctx context.Context, err error) error {
	told := err == nil && ctx.Err() != nil
	if s != nil && (told || fault.Is(err, fault.Conflict)) && os.Getenv(trialVariable) == "" {
		s.stayedUp()
	}
	return err
}

func (s *self) stayedUp() {
	forget := s.Forget
	if s.Why() != "" { // this is another program, whose own starts alone are forgotten
		forget = func() error { return forgetStarts(s.root, s.root.ProgramLink(s.cfg.Args[0])) }
	}
	if err := forget(); err != nil {
		s.log.Warn().Err(err).Msg("starts not forgotten")
	}
}

// Rehearse lets a program show, beside this one, that it reads the journal and reaches the bus.
func (s *self) Rehearse(ctx context.Context, program string) error {
	if err := s.needBus(ctx, s.conn); err != nil {
		return err
	}
	copied := s.root.Rehearsal()
	defer func() { _ = os.Remove(copied) }()
	if err := s.journal.CopyTo(copied); err != nil {
		return err
	}
	s.cfg.FailPoint("journal copied")
	within, cancel := context.WithTimeout(ctx, rehearseWithin)
	defer cancel()
	args := []string{"rehearse", "--root", string(s.root), "--journal", copied}
	if s.cfg.URL != "" {
		args = append(args, "--bus", s.cfg.URL)
	}
	cmd := exec.CommandContext(within, program, args...)
	var out, words lastWords // what it answers, and all that it printed
	cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, &words), &words
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = time.Second
	err := cmd.Run()
	var said Rehearsal
	if err == nil {
		err = json.Unmarshal(bytes.TrimSpace(out.Bytes()), &said)
	}
	if within.Err() != nil && ctx.Err() == nil {
		err = fmt.Errorf("it did not end within %s", rehearseWithin)
	}
	if err != nil && ctx.Err() == nil {
		return refuse(engine.CodeRehearsalFailed, "the new executor did not pass its rehearsal: %v%s", err, words.because())
	}
	s.log.Info().Str(logs.Version, said.Version).Uint64("generation", said.Document).Msg("new executor rehearsed")
	return err
}

// needBus waits for the bus: without it a new executor cannot show that it reaches it.
func (s *self) needBus(ctx context.Context, conn *bus.Conn) error {
	within, cancel := context.WithTimeout(ctx, busWithin)
	defer cancel()
	if err := conn.WaitConnected(within); err != nil {
		return refuse(engine.CodeNeedsBus, "the bus is away, so a new executor cannot prove that it reaches it")
	}
	return nil
}

func refuse(code, format string, args ...any) error {
	return fault.Refuse(fault.Invalid, &apiv1.Refusal{Code: code, Component: "executor", Message: strings.ToValidUTF8(fmt.Sprintf(format, args...), "?")})
}

// lastWords keeps the end of what was written to it.
type lastWords struct {
	mu  sync.Mutex
	all []byte
}

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(w.all, p...)
	w.all = w.all[max(0, len(w.all)-maxLastWords):]
	return len(p), nil
}

func (w *lastWords) Bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.all)
}

func (w *lastWords) String() string {
	return strings.ToValidUTF8(strings.ReplaceAll(string(w.Bytes()), "\x00", ""), "?")
}

// because gives the last lines, on one line, for the end of a reason.
func (w *lastWords) because() string {
	var last []string
	size := 0
	for _, line := range slices.Backward(strings.Split(w.String(), "\n")) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		line = line[:min(len(line), maxBecause)]
		if size += len(line); size > maxBecause {
			break
		}
		last = append(last, strings.ToValidUTF8(line, "?"))
	}
	if last == nil {
		return "; it printed nothing"
	}
	slices.Reverse(last)
	return "; it printed last: " + strings.Join(last, "; ")
}
