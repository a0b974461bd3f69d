package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a program that runs until it is stopped or killed, and that can be started again.
type Process struct {
	Name string

	bin  string
	args []string
	log  string

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// AddArgs adds arguments, from the next start on.
func (p *Process) AddArgs(args ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.args = append(p.args, args...)
}

// Use makes it run another program, from the next start on.
func (p *Process) Use(program string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bin = program
}

// Start starts the program, which appends its output to its log.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil {
		return fmt.Errorf("start %s: it is already running", p.Name)
	}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	defer func() { _ = out.Close() }() // the child has its own
	cmd := exec.Command(p.bin, p.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(p.log)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", p.Name, err)
	}
	p.cmd, p.done = cmd, make(chan struct{})
	go func(done chan struct{}) {
		p.err = cmd.Wait()
		close(done)
	}(p.done)
	return nil
}

// Pid returns the process id, or 0 when the process is not running.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Pause stops the process with SIGSTOP, until Resume. It does nothing when the process is not running.
func (p *Process) Pause() error { return p.signal(syscall.SIGSTOP) }

// Resume continues a paused process.
func (p *Process) Resume() error { return p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.Name, err)
	}
	return nil
}

// Running reports whether the process was started and has not ended.
func (p *Process) Running() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return false
	}
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Revive starts the process again when it is not running, and continues it when it is paused.
func (p *Process) Revive() error {
	if p.Running() {
		return p.Resume()
	}
	p.mu.Lock()
	p.cmd = nil
	p.mu.Unlock()
	return p.Start()
}

// Kill ends the process with SIGKILL and waits until it has ended.
func (p *Process) Kill() error { return p.end(syscall.SIGKILL, time.Minute) }

// Stop ends the process with SIGTERM or, if that does not end it, with SIGKILL and an error.
func (p *Process) Stop() error {
	if err := p.end(syscall.SIGTERM, time.Minute); err != nil {
		return errors.Join(err, p.end(syscall.SIGKILL, time.Minute))
	}
	return nil
}

func (p *Process) end(with syscall.Signal, within time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(with); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("end %s: %w", p.Name, err)
	}
	select {
	case <-p.done:
		p.cmd = nil
		return nil
	case <-time.After(within):
		return fmt.Errorf("%s (pid %d) did not end within %v of %v", p.Name, p.cmd.Process.Pid, within, with)
	}
}

// Ended waits until the process has ended by itself, and returns its exit code.
func (p *Process) Ended(ctx context.Context) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return 0, fmt.Errorf("%s is not running", p.Name)
	}
	select {
	case <-p.done:
		code := p.cmd.ProcessState.ExitCode()
		p.cmd = nil
		return code, nil
	case <-ctx.Done():
		return 0, fmt.Errorf("%s did not end: %w", p.Name, ctx.Err())
	}
}

// lastLines is how much of a log an error shows.
const lastLines = 20

// EndedByItself returns an error with the end of the log when the process was started and ended without Kill, Stop or
// Ended.
func (p *Process) EndedByItself() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return nil
	}
	select {
	case <-p.done:
	default:
		return nil
	}
	lines := strings.Split(strings.TrimSpace(p.Log()), "\n")
	lines = lines[max(0, len(lines)-lastLines):]
	return fmt.Errorf("%s ended by itself (%v), its log ends with:\n%s", p.Name, p.cmd.ProcessState,
		strings.Join(lines, "\n"))
}

// Log returns everything the process has written so far.
func (p *Process) Log() string {
	data, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Usage is what a process uses.
type Usage struct {
	CPU             time.Duration // so far
	ResidentKB      float64
	PeakKB          float64 // the most that was resident
	Threads         int
	FileDescriptors int
}

// clockTick is the unit of the times in /proc/PID/stat on every Linux that Go supports.
const clockTick = 10 * time.Millisecond

// Uses returns what a process uses, by /proc.
func Uses(pid int) (u Usage, err error) {
	dir := fmt.Sprintf("/proc/%d", pid)
	stat, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return u, err
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // behind the name of the program
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return u, fmt.Errorf("process %d has the status %q", pid, stat)
	}
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return u, err
	}
	u.CPU = time.Duration(user+system) * clockTick
	status, err := os.ReadFile(dir + "/status")
	for line := range strings.Lines(string(status)) { // each scan takes its own line only
		_, _ = fmt.Sscanf(line, "VmRSS: %g", &u.ResidentKB)
		_, _ = fmt.Sscanf(line, "VmHWM: %g", &u.PeakKB)
		_, _ = fmt.Sscanf(line, "Threads: %d", &u.Threads)
	}
	files, _ := os.ReadDir(dir + "/fd")
	u.FileDescriptors = len(files)
	return u, err
}
