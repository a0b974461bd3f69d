package selfupdate

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

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
)

// The trial from the side of the old executor, which has released journal, bus and agents. The
// candidate is a child of this process and dies with it, so there is never more than one executor.
// When the candidate does not prove itself, this process goes on where it was.

// trialVariable marks a process as a candidate, and says how long it must work.
const trialVariable = "GARRISON_TRIAL"

// trialFile is the descriptor on which a candidate reports. It closes when the old executor ends.
const trialFile = 3

// provenReport is what a candidate writes when it has worked for the soak time.
const provenReport = "proven\n"

// endWithin is how long a candidate may take to release everything again.
const endWithin = 20 * time.Second

// trial is a candidate's process.
type trial struct {
	cmd    *exec.Cmd
	output lastOutput
	proven chan struct{} // closed when the candidate reported that it works
	closed chan struct{} // closed when no further report can come
	done   chan struct{} // closed when the candidate ended with err
	err    error
}

// try lets a candidate work in this process's place, and ends it in any case.
func (p *Process) try(ctx context.Context, h *engine.HandOver) engine.TrialResult {
	log := p.cfg.Log.With().Str(logs.Agent, h.Agent).Str(logs.Version, h.Version).Logger()
	log.Info().Msg("trial of a new executor begins")
	began := time.Now()
	t, err := p.startTrial(h)
	if err != nil {
		return engine.TrialResult{Err: refuse(code.NotStarted, "%v", err)}
	}
	p.cfg.FailPoint("trial begun")
	err = t.watch(ctx, h)
	if errors.Is(err, errSilent) {
		err = p.whySilent(ctx, h)
	}
	v := engine.TrialResult{
		Passed:  err == nil,
		Again:   ctx.Err() != nil,
		Err:     err,
		LogTail: t.output.String(),
		Took:    time.Since(began),
	}
	if err != nil {
		log.Warn().Err(err).Msg("new executor did not prove itself")
	}
	return v
}

func (p *Process) startTrial(h *engine.HandOver) (*trial, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "trial"), os.NewFile(uintptr(pair[1]), "trial")
	t := &trial{
		cmd:    exec.Command(h.Program, p.cfg.Args[1:]...),
		proven: make(chan struct{}),
		closed: make(chan struct{}),
		done:   make(chan struct{}),
	}
	out := io.MultiWriter(&t.output, os.Stderr)
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
			<-t.closed // its report may still be unread
		}
		_ = ours.Close()
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	go func() {
		defer close(t.closed)
		if line, _ := bufio.NewReader(ours).ReadString('\n'); line == provenReport {
			close(t.proven)
		}
	}()
	return t, nil
}

var errSilent = errors.New("no report in time")

// watch waits until the candidate has reported that it works and has ended well, or ends it. The
// process is gone when watch returns.
func (t *trial) watch(ctx context.Context, h *engine.HandOver) error {
	limit := time.NewTimer(h.Timeout + h.Soak)
	defer limit.Stop()
	select {
	case <-t.proven:
	case <-t.done:
		if t.provedItself() {
			break
		}
		return refuse(code.Exited, "the new executor ended before it proved itself: %v%s", t.how(), t.output.because())
	case <-limit.C:
		return errors.Join(errSilent, t.kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), t.kill())
	}
	limit.Reset(endWithin)
	select {
	case <-t.done:
		if t.err != nil {
			return refuse(
				code.Unstable, "the new executor worked and then ended with %v%s", t.how(), t.output.because(),
			)
		}
		return nil
	case <-limit.C:
		return errors.Join(refuse(code.Unstable, "the new executor worked but did not end within %s", endWithin),
			t.kill())
	case <-ctx.Done():
		return errors.Join(ctx.Err(), t.kill())
	}
}

// saidBefore reports whether a process that has ended had said the word: it ends right after it.
func (t *trial) provedItself() bool {
	select {
	case <-t.closed:
	case <-time.After(time.Second):
	}
	select {
	case <-t.proven:
		return true
	default:
		return false
	}
}

// how returns how it ended.
func (t *trial) how() string {
	if t.err == nil {
		return "exit status 0"
	}
	return t.err.Error()
}

// kill ends the process, and not the agents that it started, which are in sessions of their own.
func (t *trial) kill() error {
	_ = unix.Kill(-t.cmd.Process.Pid, unix.SIGKILL)
	select {
	case <-t.done:
		return nil
	case <-time.After(endWithin):
		return fmt.Errorf("the new executor (process %d) did not end within %s after SIGKILL", t.cmd.Process.Pid,
			endWithin)
	}
}

// whySilent returns why a candidate did not report: the bus is unreachable, or the candidate does not reach it.
func (p *Process) whySilent(ctx context.Context, h *engine.HandOver) error {
	within, cancel := context.WithTimeout(ctx, busWithin)
	defer cancel()
	if err := p.cfg.ReadBus(within); err != nil {
		return refuse(code.NeedsBus, "the bus became unreachable during the trial: %v", err)
	}
	return refuse(code.NotReady, "the new executor did not report within %s that it works; the bus is reachable",
		h.Timeout+h.Soak)
}
