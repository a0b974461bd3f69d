package probe

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

	"github.com/garrison-fleet/garrison/services/executor/internal/kin"
)

// Exec is a program that is run to its end, beside the agent and as the agent would be:
// it passes when it ends with 0.
type Exec struct {
	Path      string
	Args, Env []string
	Dir       string
}

const (
	execWithin  = 10 * time.Second       // for one try
	pipeWithin  = 200 * time.Millisecond // for output that somebody still holds open when the program has ended
	endWithin   = 2 * time.Second        // for what it left, after SIGKILL
	letGoWithin = 2 * endWithin          // for the program itself, and what it left
	maxOutput   = 1 << 10                // bytes of output that a reason quotes
)

// Run runs the program once, and waits no longer for one that the kernel does not let go,
// as it waits for a disk. That one is not run again before it has ended.
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
	case <-time.After(letGoWithin):
	}
	stuck.Store(name, true)
	select {
	case err := <-ended: // and may have been forgotten before
		stuck.Delete(name)
		return err
	default:
		return fmt.Errorf("the probe did not end in time, nor within %s after SIGKILL", letGoWithin)
	}
}

// stuck are the programs for which nobody waits any more.
var stuck sync.Map

// run runs the program once. When it has ended, or ctx is done, its whole process group
// is killed, and what left the group. What the kernel does not let go is no word about the
// agent, so a program that passed has passed, and one that did not says it too. If the executor itself is killed, the kernel kills
// the program.
func (e *Exec) run(ctx context.Context) error {
	// The kernel sends Pdeathsig when the thread ends that started the program, so this
	// goroutine keeps its thread until then.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.CommandContext(ctx, e.Path, e.Args...)
	token := kin.NewToken()
	cmd.Env, cmd.Dir = append(slices.Clone(e.Env), kin.Mark(token)), e.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return unix.Kill(-cmd.Process.Pid, unix.SIGKILL) }
	cmd.WaitDelay = pipeWithin
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the probe: %w", err)
	}
	waitDead(cmd.Process.Pid)
	_ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) // its number cannot be reused before Wait
	left := kin.End(token, endWithin)
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		err = fmt.Errorf("the probe did not end in time%s", out.said())
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && cmd.ProcessState.Success():
		return nil
	default:
		err = fmt.Errorf("the probe ended with %s%s", cmd.ProcessState, out.said())
	}
	if left != nil {
		return fmt.Errorf("%w; %w", err, left)
	}
	return err
}

// waitDead returns when a child has ended and was not buried yet.
func waitDead(pid int) {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// tail keeps the end of what is written to it. One goroutine writes: exec.Cmd gives one
// pipe to an output that is also the error output.
type tail struct {
	kept bytes.Buffer
	more bool
}

// Write implements io.Writer and never fails, so that a program that says much goes on.
func (t *tail) Write(p []byte) (int, error) {
	n := len(p)
	if n > maxOutput {
		p, t.more = p[n-maxOutput:], true
	}
	if over := t.kept.Len() + len(p) - maxOutput; over > 0 {
		t.kept.Next(over)
		t.more = true
	}
	t.kept.Write(p)
	return n, nil
}

// said quotes the output, or gives nothing when there is none.
func (t *tail) said() string {
	text := strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(t.kept.String(), "\x00", ""), "?"))
	if text == "" {
		return ""
	}
	if t.more {
		text = "… " + text
	}
	return fmt.Sprintf(" and said %q", text)
}
