package executor_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// unit is the executor's process, kept up as a service manager keeps it.
type unit struct {
	stopping chan struct{}
	stopped  chan struct{}

	mu     sync.Mutex
	cmd    *exec.Cmd
	starts int
}

// restartPause is the pause before the next start. A shorter one takes a core for each executor that refuses to start.
const restartPause = 100 * time.Millisecond

// start starts the executor and keeps it up. The first process alone gets the environment.
func (b *box) start(env ...string) {
	b.t.Helper()
	u := &unit{stopping: make(chan struct{}), stopped: make(chan struct{})}
	b.unit = u
	first, err := b.spawn(u, env...)
	if err != nil {
		b.t.Fatal(err)
	}
	go func() {
		defer close(u.stopped)
		for cmd := first; ; {
			_ = cmd.Wait()
			select {
			case <-u.stopping:
			case <-time.After(restartPause):
			}
			if cmd, err = b.spawn(u); errors.Is(err, errStopping) {
				return
			} else if err != nil {
				b.t.Error(err)
				return
			}
		}
	}()
}

// errStopping is why nothing is started: who stops it has signalled the last process.
var errStopping = errors.New("it is being stopped")

func (b *box) spawn(u *unit, env ...string) (*exec.Cmd, error) {
	out, err := os.OpenFile(b.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd := exec.Command(b.bootstrap, "run", "--root", string(b.root), "--bus", b.url)
	cmd.Env = append(
		[]string{"PATH=" + os.Getenv("PATH"), "SELF_TEST_CELL=" + b.at.Cell, "SELF_TEST_SERVER=" + b.at.Server},
		env...)
	cmd.Stdout, cmd.Stderr = out, out
	u.mu.Lock()
	defer u.mu.Unlock()
	select {
	case <-u.stopping:
		return nil, errStopping
	default:
	}
	u.starts++
	u.cmd = cmd
	return cmd, cmd.Start()
}

// started says how often the executor was started.
func (u *unit) started() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.starts
}

// pid returns the process that is kept up now.
func (u *unit) pid() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.cmd.Process.Pid
}

// stop ends the executor as a service manager does.
func (b *box) stop() {
	if b.unit == nil {
		return
	}
	u := b.unit
	b.unit = nil
	u.mu.Lock()
	close(u.stopping)
	_ = u.cmd.Process.Signal(os.Interrupt)
	u.mu.Unlock()
	select {
	case <-u.stopped:
	case <-time.After(time.Minute):
		b.t.Error("the executor did not stop within a minute")
		u.mu.Lock()
		_ = u.cmd.Process.Kill()
		u.mu.Unlock()
		<-u.stopped
	}
}

// process is a process whose program is an executor of this box.
type process struct {
	pid   int
	trial bool
}

// executors returns the processes that are executors of this box.
func (b *box) executors() (out []process) {
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		exe, err := os.Readlink(filepath.Join("/proc", e.Name(), "exe"))
		exe = strings.TrimSuffix(exe, " (deleted)")
		if err != nil ||
			exe != b.bootstrap && !(strings.HasPrefix(exe, b.root.Images()+"/") && filepath.Base(exe) == "executor") {
			continue
		}
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		out = append(out, process{pid, bytes.Contains(env, []byte("GARRISON_TRIAL="))})
	}
	return out
}

// alone reports whether the process that is kept up is the only executor. One that is just
// starting another program looks like two for an instant.
func (b *box) alone() bool {
	all := b.executors()
	return len(all) == 1 && !all[0].trial && all[0].pid == b.main()
}
