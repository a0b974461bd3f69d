package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/kin"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Spec says how to run one slot's process.
type Spec struct {
	Agent       string
	Image       string // the image's id; with the agent it names the slot
	Name        string // for people
	Record      string // the slot's record file
	Output      string // stdout and stderr are appended here
	Dir         string // the working directory
	Path        string
	Args        []string
	Env         []string
	StopTimeout time.Duration // 0 means DefaultStopTimeout
	Notify      bool          // it says READY=1
	Limits      *imagev1.Limits
	Sandbox     *imagev1.Sandbox

	// Hold keeps a process that ended from being started again until it returns; false when
	// stop was closed before. Nil holds nothing.
	Hold func(stop <-chan struct{}) bool

	// Sockets gives what it listens on, at each start; nil when there is nothing. The files are closed after the start.
	Sockets func() (names []string, files []*os.File, err error)
}

// Held waits until the process may be started again, and returns false when stop was closed before.
func (s Spec) Held(stop <-chan struct{}) bool { return s.Hold == nil || s.Hold(stop) }

// DefaultStopTimeout is what a manifest leaves out (image.proto, Run).
const DefaultStopTimeout = 10 * time.Second

// process is a running process: our child, or one that an earlier executor started.
type process struct {
	record
	ready    atomic.Bool   // it was proven after it said READY=1
	stopping atomic.Bool   // stop ends what left its group
	exited   chan struct{} // closed when it ended
	how      string        // how it ended, in a few words; read it after exited
}

// adoptEvery is how often a process that is not our child is looked at.
const adoptEvery = 200 * time.Millisecond

// open gives the slot's process: the one that still runs, or a new one. What is left of the
// one before and cannot be killed, as it waits for a disk, does not keep a new one from running.
func open(s Spec, log zerolog.Logger) (p *process, adopted bool, err error) {
	r, ok, err := readRecord(s.Record)
	if err != nil {
		return nil, false, err
	}
	if ok {
		if found, runs := r.find(); runs {
			if found.Pid != r.Pid { // what is written down already needs no room on the disk
				err = found.write(s.Record)
			}
			return adopt(found), true, err
		}
		if r.Left, err = r.endRest(restWithin); err != nil {
			log.Warn().Err(err).Msg("agent started beside what is left of it")
		}
	}
	p, err = start(s, r.Left)
	return p, false, err
}

// start starts a process; left are the tokens of earlier starts of which something is left.
func start(s Spec, left []string) (*process, error) {
	r := record{Token: kin.NewToken(), Boot: bootID(), StartedAt: time.Now(), Left: left}
	if err := announce(r, s.Record); err != nil {
		return nil, err
	}
	if err := Own(s.Dir, s.Sandbox.GetUser()); err != nil {
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
	cmd.Env = append(cmd.Env, kin.Mark(r.Token))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	r.Pid = cmd.Process.Pid
	r.Start, _ = kin.StartTime(r.Pid)
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
	p.endKin()
	if err := cmd.Wait(); err != nil {
		p.how = err.Error()
	} else {
		p.how = "exit status 0"
	}
	close(p.exited)
}

func adopt(r record) *process {
	p := &process{record: r, exited: make(chan struct{})}
	p.ready.Store(r.Ready)
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
	p.endKin()
	// It is our child after all when this process became another program since it started it.
	_, _ = unix.Wait4(p.Pid, nil, unix.WNOHANG, nil)
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
	if now, ok := kin.StartTime(r.Pid); ok && now != r.Start {
		return
	}
	_ = unix.Kill(-r.Pid, unix.SIGKILL)
}

// endKin kills what left the group of a process that ended by itself, before another one
// takes its place. What does not end is seen when the slot is stopped or started.
func (p *process) endKin() {
	if !p.stopping.Load() {
		_ = kin.End(p.Token, killWithin)
	}
}

// endRest kills what is left of a process that has ended, and of those before it. It gives
// the tokens of the starts of which something did not end, the latest of them.
func (r record) endRest(within time.Duration) (left []string, err error) {
	if r.Boot != bootID() {
		return nil, nil
	}
	r.killGroup()
	end := time.Now().Add(within)
	for _, token := range append(slices.Clone(r.Left), r.Token) {
		if failed := kin.End(token, time.Until(end)); failed != nil {
			left, err = append(left, token), errors.Join(err, failed)
		}
	}
	return left[max(0, len(left)-maxLeft):], err
}

// stop ends the process, its group and what left the group, and returns when they have
// ended. All of them have the same time for it.
func (p *process) stop(within time.Duration) error {
	if within == 0 {
		within = DefaultStopTimeout
	}
	p.stopping.Store(true)
	end := time.Now().Add(within)
	if _, runs := p.find(); runs {
		_ = unix.Kill(-p.Pid, unix.SIGTERM)
	}
	_, _ = kin.Signal(p.Token, unix.SIGTERM, func(pid int) bool { return group(pid) == p.Pid }) // End tells who is left
	select {
	case <-p.exited:
		kin.Await(p.Token, time.Until(end))
		_, err := p.endRest(killWithin)
		return err
	case <-time.After(within):
	}
	if _, runs := p.find(); runs {
		_ = unix.Kill(-p.Pid, unix.SIGKILL)
	}
	select {
	case <-p.exited:
		_, err := p.endRest(killWithin)
		return err
	case <-time.After(killWithin):
		return fmt.Errorf("process %d did not end within %s after SIGKILL", p.Pid, killWithin)
	}
}

const (
	killWithin = 10 * time.Second
	restWithin = time.Second // for what is left, when a process is started all the same
)

// runOnce runs a program to its end, for an agent that is a set-up. One that an earlier
// executor started is stopped first: how it ended could not be known. An interrupted one
// is killed with its group.
func runOnce(s Spec, interrupted <-chan struct{}) error {
	if err := (&unit{spec: s}).Stop(); err != nil {
		return err
	}
	p, err := start(s, nil)
	if err != nil {
		if p != nil { // it runs, and could not be written down
			err = errors.Join(err, p.stop(s.StopTimeout))
		}
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
