package healthcheck

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/inherit"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// Exec is a program that checks the agent: it runs beside the agent with the same environment and privileges, and
// passes with exit status 0.
type Exec struct {
	Path      string
	Args, Env []string
	Dir       string
}

const (
	execWithin    = 10 * time.Second       // for one try
	pipeWithin    = 200 * time.Millisecond // for output pipes that are still open when the program has ended
	endWithin     = 2 * time.Second        // for processes that it left, after SIGKILL
	abandonWithin = 2 * endWithin          // for the program itself and what it left
	maxOutput     = 1 << 10                // bytes of output that an error quotes
)

// Run runs the program once. It does not wait for a program that the kernel cannot kill, as one that waits for a disk,
// and does not run that program again before it has ended.
func (e *Exec) Run(ctx context.Context) error {
	name := strings.Join(append([]string{e.Dir, e.Path}, e.Args...), "\x00")
	if _, is := stuck.Load(name); is {
		return errors.New("the probe before still waits for the kernel")
	}
	ended := make(chan error, 1)
	go func() {
		ended <- e.run(ctx)
		stuck.Delete(name)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(abandonWithin):
	}
	stuck.Store(name, true)
	select {
	case err := <-ended: // and it may have been deleted before the Store
		stuck.Delete(name)
		return err
	default:
		return fmt.Errorf("the probe did not end in time, nor within %s after SIGKILL", abandonWithin)
	}
}

// stuck holds the programs that Run has abandoned.
var stuck sync.Map

// run runs the program once. When it has ended, or ctx is done, its process group and what left the group are killed.
// Leftovers that the kernel cannot kill do not fail a check that passed. The kernel kills the program if the executor
// itself is killed.
func (e *Exec) run(ctx context.Context) error {
	// Pdeathsig is sent when the thread ends that started the program, so this goroutine keeps its thread.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, e.Path, e.Args...)
	token := proctree.NewToken()
	cmd.Env, cmd.Dir = append(slices.Clone(e.Env), proctree.Mark(token)), e.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = pipeWithin
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := inherit.Start(cmd); err != nil {
		return answered(fmt.Errorf("start the probe: %w", err)) // it says nothing about the agent
	}
	awaitExit(cmd.Process.Pid)
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // the id cannot be reused before Wait
	left := proctree.End(token, endWithin)
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("the probe did not end in time%s", out.quoted())
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success():
		return nil
	default:
		err = answered(fmt.Errorf("the probe ended with %s%s", cmd.ProcessState, out.quoted()))
	}
	if left != nil {
		return fmt.Errorf("%w; %w", err, left)
	}
	return err
}

// awaitExit returns when a child has become a zombie.
func awaitExit(pid int) {
	for errors.Is(unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
}

// tail keeps the end of the output. Only one goroutine writes: exec.Cmd uses one pipe for equal writers.
type tail struct {
	kept bytes.Buffer
	more bool
}

// Write implements io.Writer and never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept.Write(p)
	if over := t.kept.Len() - maxOutput; over > 0 {
		t.kept.Next(over)
		t.more = true
	}
	return len(p), nil
}

// quoted returns the output for an error, or "" without one.
func (t *tail) quoted() string {
	text := strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(t.kept.String(), "\x00", ""), "?"))
	if text == "" {
		return ""
	}
	if t.more {
		text = "… " + text
	}
	return fmt.Sprintf(" and said %q", text)
}
