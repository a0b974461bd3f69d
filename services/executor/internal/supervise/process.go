package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Spec says how to run one slot's process.
type Spec struct {
	Name        string // for people
	Record      string // the slot's record file
	Output      string // stdout and stderr are appended here
	Dir         string // the working directory
	Path        string
	Args        []string
	Env         []string
	StopTimeout time.Duration // 0 means DefaultStopTimeout

	// Sockets gives what it listens on, at each start; nil when there is nothing. The files are closed after the start.
	Sockets func() (names []string, files []*os.File, err error)
}

// DefaultStopTimeout is what a manifest leaves out (image.proto, Run).
const DefaultStopTimeout = 10 * time.Second

// process is a running process: our child, or one that an earlier executor started.
type process struct {
	record
	exited chan struct{} // closed when it ended
	how    string        // how it ended, in a few words; read it after exited
}

// adoptEvery is how often a process that is not our child is looked at.
const adoptEvery = 200 * time.Millisecond

// open gives the slot's process: the one that still runs, or a new one.
func open(s Spec) (p *process, adopted bool, err error) {
	r, ok, err := readRecord(s.Record)
	if err != nil {
		return nil, false, err
	}
	if ok {
		if found, runs := r.find(); runs {
			return adopt(found), true, found.write(s.Record)
		}
		r.killGroup()
	}
	p, err = start(s)
	return p, false, err
}

func start(s Spec) (*process, error) {
	r := record{Token: ident.New(), Boot: bootID(), StartedAt: time.Now()}
	if err := announce(r, s.Record); err != nil {
		return nil, err
	}
	out, err := openOutput(s.Output)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }()
	cmd, err := s.command()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	defer closeAll(cmd.ExtraFiles)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, out, out
	cmd.Env = append(cmd.Env, tokenVariable+"="+r.Token)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	r.Pid = cmd.Process.Pid
	r.Start, _ = startTime(r.Pid)
	p := &process{record: r, exited: make(chan struct{})}
	go p.reap(cmd)
	return p, r.write(s.Record)
}

func openOutput(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open output: %w", err)
	}
	return f, nil
}

// reap waits for our child. Its group is killed while its id cannot be reused yet.
func (p *process) reap(cmd *exec.Cmd) {
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	p.killGroup()
	if err := cmd.Wait(); err != nil {
		p.how = err.Error()
	} else {
		p.how = "exit status 0"
	}
	close(p.exited)
}

func adopt(r record) *process {
	p := &process{record: r, exited: make(chan struct{})}
	go p.watch()
	return p
}

// watch looks at a process that is not our child until it has ended.
func (p *process) watch() {
	for {
		if _, runs := p.find(); !runs {
			break
		}
		time.Sleep(adoptEvery)
	}
	p.killGroup()
	p.how = "ended (its exit status went to another process)"
	close(p.exited)
}

// killGroup kills what is left of a group whose leader has ended. A group that still has
// members keeps its number from being reused as a process id, so if the number is now
// somebody else's, the group is empty and nothing is signalled.
func (r record) killGroup() {
	if r.Pid <= 1 || r.Boot != bootID() {
		return
	}
	if now, ok := startTime(r.Pid); ok && now != r.Start {
		return
	}
	_ = unix.Kill(-r.Pid, unix.SIGKILL)
}

// stop ends the process and its group, and returns when it has ended.
func (p *process) stop(within time.Duration) error {
	if within == 0 {
		within = DefaultStopTimeout
	}
	if _, runs := p.find(); runs {
		_ = unix.Kill(-p.Pid, unix.SIGTERM)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(within):
	}
	if _, runs := p.find(); runs {
		_ = unix.Kill(-p.Pid, unix.SIGKILL)
	}
	select {
	case <-p.exited:
		return nil
	case <-time.After(killWithin):
		return fmt.Errorf("process %d did not end within %s after SIGKILL", p.Pid, killWithin)
	}
}

const killWithin = 10 * time.Second

// RunOnce runs a program to its end, for an agent that is a set-up. One that an earlier
// executor started is stopped first: how it ended could not be known. An interrupted one
// is killed with its group.
func RunOnce(s Spec, interrupted <-chan struct{}) error {
	if err := (&Unit{spec: s}).Stop(); err != nil {
		return err
	}
	p, err := start(s)
	if err != nil {
		return err
	}
	select {
	case <-p.exited:
	case <-interrupted:
		return errors.Join(fmt.Errorf("%s did not end in time", s.Name), p.stop(s.StopTimeout), removeRecord(s.Record))
	}
	if p.how != "exit status 0" {
		return errors.Join(fmt.Errorf("%s: %s", s.Name, p.how), removeRecord(s.Record))
	}
	return removeRecord(s.Record)
}

func removeRecord(path string) error {
	err := os.Remove(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = layout.SyncDir(filepath.Dir(path))
	}
	return err
}

// Tail gives the end of an output file from a place on, at most n bytes, as valid text.
func Tail(path string, from int64, n int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	if from > info.Size() {
		from = 0 // it was cut since
	}
	from = max(from, info.Size()-n)
	buf := make([]byte, info.Size()-from)
	size, _ := f.ReadAt(buf, from)
	return strings.ToValidUTF8(strings.ReplaceAll(string(buf[:size]), "\x00", ""), "?")
}
