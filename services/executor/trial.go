package executor

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// The trial of a new executor, seen from the old one. The old one has let everything go:
// journal, bus and agents are the new one's, which is a child of this process and dies
// with it. So there is never more than one, and the old one, whose program is in memory
// already, goes on where it was when the new one does not say that it works.

// trialVariable tells a new executor that it is on trial, and how long it must work.
const trialVariable = "GARRISON_TRIAL"

// trialFile is the descriptor on which it says so; its end is the old one's end.
const trialFile = 3

// provenWord is what it says.
const provenWord = "proven\n"

// endWithin is how long it may take to let everything go again.
const endWithin = 20 * time.Second

// trial is a new executor's process.
type trial struct {
	cmd   *exec.Cmd
	words lastWords
	said  chan struct{} // closed when it said the word
	heard chan struct{} // closed when it says no more
	done  chan struct{} // closed when it ended, and how is in err
	err   error
}

// try lets a new executor work in this one's place, and ends it in any case.
func (x *Executor) try(ctx context.Context, h *engine.HandOver) engine.Verdict {
	log := x.cfg.Log.With().Str(logs.Agent, h.Agent).Str(logs.Version, h.Version).Logger()
	log.Info().Msg("new executor on trial")
	began := time.Now()
	t, err := x.startTrial(h)
	if err != nil {
		return engine.Verdict{Err: refuse("NOT_STARTED", "%v", err)}
	}
	x.cfg.FailPoint("trial begun")
	err = t.watch(ctx, h)
	if errors.Is(err, errSilent) {
		err = x.whySilent(ctx, h)
	}
	v := engine.Verdict{Proven: err == nil, Again: ctx.Err() != nil, Err: err, LogTail: t.words.String(), Took: time.Since(began)}
	if err != nil {
		log.Warn().Err(err).Msg("new executor not proven")
	}
	return v
}

func (x *Executor) startTrial(h *engine.HandOver) (*trial, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "trial"), os.NewFile(uintptr(pair[1]), "trial")
	t := &trial{cmd: exec.Command(h.Program, x.cfg.Args[1:]...), said: make(chan struct{}), heard: make(chan struct{}), done: make(chan struct{})}
	out := io.MultiWriter(&t.words, os.Stderr)
	t.cmd.Stdout, t.cmd.Stderr = out, out
	t.cmd.Env = append(os.Environ(), trialVariable+"="+h.Soak.String())
	t.cmd.ExtraFiles = []*os.File{theirs}
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	t.cmd.WaitDelay = time.Second
	started := make(chan error)
	go func() {
		// The child dies when the thread that started it ends, so the thread waits for it.
		runtime.LockOSThread()
		err := t.cmd.Start()
		_ = theirs.Close()
		started <- err
		if err == nil {
			t.err = t.cmd.Wait()
			close(t.done)
			<-t.heard // its last word may still be there to read
		}
		_ = ours.Close()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		defer close(t.heard)
		if line, _ := bufio.NewReader(ours).ReadString('\n'); line == provenWord {
			close(t.said)
		}
	}()
	return t, nil
}

var errSilent = errors.New("it did not say in time that it works")

// watch waits until the process has said that it works and has ended well, or ends it. It
// is gone when watch returns.
func (t *trial) watch(ctx context.Context, h *engine.HandOver) error {
	limit := time.NewTimer(h.Timeout + h.Soak)
	defer limit.Stop()
	select {
	case <-t.said:
	case <-t.done:
		if t.saidBefore() {
			break
		}
		return refuse("EXITED", "the new executor ended before it was proven: %v%s", t.how(), t.words.because())
	case <-limit.C:
		return errors.Join(errSilent, t.kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), t.kill())
	}
	limit.Reset(endWithin)
	select {
	case <-t.done:
		if t.err != nil {
			return refuse("UNSTABLE", "the new executor worked, and then ended with %v%s", t.how(), t.words.because())
		}
		return nil
	case <-limit.C:
		return errors.Join(refuse("UNSTABLE", "the new executor worked, but did not let go within %s", endWithin), t.kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), t.kill())
	}
}

// saidBefore says whether a process that has ended had said the word: it ends right after it.
func (t *trial) saidBefore() bool {
	select {
	case <-t.heard:
	case <-time.After(time.Second):
	}
	select {
	case <-t.said:
		return true
	default:
		return false
	}
}

// how says how it ended.
func (t *trial) how() string {
	if t.err == nil {
		return "exit status 0"
	}
	return t.err.Error()
}

// kill ends the process, and not the agents that it started: they are in sessions of their own.
func (t *trial) kill() error {
	_ = unix.Kill(-t.cmd.Process.Pid, unix.SIGKILL)
	select {
	case <-t.done:
		return nil
	case <-time.After(endWithin):
		return fmt.Errorf("the new executor (process %d) did not end within %s after SIGKILL", t.cmd.Process.Pid, endWithin)
	}
}

// whySilent tells a new executor that does not reach the bus from a bus that is away.
func (x *Executor) whySilent(ctx context.Context, h *engine.HandOver) error {
	within, cancel := context.WithTimeout(ctx, busWithin)
	defer cancel()
	who, err := x.who()
	if err != nil {
		return err
	}
	conn, err := x.dial(who, false)
	if err == nil {
		defer conn.Close()
		_, err = link.Document(within, conn, who.Address())
	}
	if err != nil {
		return refuse(engine.CodeNeedsBus, "the bus went away during the trial: %v", err)
	}
	return refuse("NOT_READY", "the new executor did not say within %s that it works; the bus is there", h.Timeout+h.Soak)
}
