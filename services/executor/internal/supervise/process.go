package supervise

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/services/executor/internal/inherit"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// process is a running process: a child, or one that an earlier executor started.
type process struct {
	record
	ready    atomic.Bool   // the health check passed after READY=1
	stopping atomic.Bool   // stop ends what left the group
	exited   chan struct{} // closed when the process ended
	starts   *starts
	how      string // how the process ended, in a few words; valid after exited
	failing  Failing
}

const (
	adoptEvery = 200 * time.Millisecond // how often a process that is not a child is polled
	killWithin = 10 * time.Second       // for the end after SIGKILL
	restWithin = time.Second            // for leftovers, when a process is started all the same
)

// alive reports whether the process has not ended. A nil process has.
func (p *process) alive() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// open returns the slot's process: the one that still runs, or a new one. Leftovers of the one before that cannot be
// killed, as they wait for a disk, do not block a new one.
func (st *starts) open(s Spec, log zerolog.Logger) (p *process, adopted bool, err error) {
	r, ok, err := readRecord(s.Record)
	if err != nil {
		return nil, false, err
	}
	if ok {
		if found, runs := r.find(); runs {
			if found.Pid != r.Pid { // an unchanged record needs no room on the disk
				err = found.write(s.Record)
			}
			return st.adopt(found), true, err
		}
		if r.Left, err = r.endRest(restWithin); err != nil {
			log.Warn().Err(err).Msg("agent started beside processes that its last start left")
		}
	}
	p, err = st.start(s, r.Left, log)
	return p, false, err
}

// start starts a process. left are the tokens of earlier starts that left processes. A process that runs and could not
// be recorded is returned with the error.
func (st *starts) start(s Spec, left []string, log zerolog.Logger) (*process, error) {
	if err := st.endLost(s); err != nil {
		log.Warn().Err(err).Msg("agent started beside processes whose records are lost")
	}
	r := record{
		Token: proctree.NewTokenIn(filepath.Dir(s.Record)), Boot: proctree.BootID(), StartedAt: time.Now(), Left: left,
	}
	if err := r.write(s.Record); err != nil { // before the process exists: a crash never leaves one unrecorded
		return nil, err
	}
	if err := Own(s.Dir, s.Sandbox.GetUser()); err != nil {
		return nil, err
	}
	out, err := OpenOutput(s.Output)
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
	cmd.Env = append(cmd.Env, proctree.Mark(r.Token))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := inherit.Start(cmd); err != nil {
		return nil, fmt.Errorf("start %s: %w", s.Name, err)
	}
	r.Pid = cmd.Process.Pid
	r.Start, _ = proctree.StartTime(r.Pid)
	p := st.follow(r)
	go p.reap(cmd)
	return p, r.write(s.Record)
}

// reap waits for a child. Its group is killed before its id can be reused.
func (p *process) reap(cmd *exec.Cmd) {
	for errors.Is(unix.Waitid(unix.P_PID, p.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	p.endLeft()
	p.how = ExitedWell
	if err := cmd.Wait(); err != nil {
		p.how = err.Error()
	}
	p.end()
}

// follow returns the process of a record.
func (st *starts) follow(r record) *process {
	st.followed.Store(r.Token, true)
	return &process{record: r, exited: make(chan struct{}), starts: st}
}

// end notes that the process has ended.
func (p *process) end() {
	p.starts.followed.Delete(p.Token)
	close(p.exited)
}

// ExitedWell is how a process ended that succeeded.
const ExitedWell = "exit status 0"

func (st *starts) adopt(r record) *process {
	p := st.follow(r)
	p.ready.Store(r.Ready)
	go p.watch()
	return p
}

// watch polls a process that is not a child until it has ended.
func (p *process) watch() {
	for _, runs := p.find(); runs; _, runs = p.find() {
		time.Sleep(adoptEvery)
	}
	p.endLeft()
	// It is a child after all if this executor replaced, by exec, the one that started it.
	_, _ = unix.Wait4(p.Pid, nil, unix.WNOHANG, nil)
	p.how = "ended (its exit status went to another process)"
	p.end()
}

// endLeft kills what an ended process left in its group and outside of it, before the next start. What does not end is
// found again when the slot is stopped or started.
func (p *process) endLeft() {
	p.killGroup()
	if !p.stopping.Load() {
		_ = proctree.End(p.Token, killWithin)
	}
}

// killGroup kills the rest of a group whose leader has ended. A group with members keeps its number from being reused
// as a process id. So if another process has the number, the group is empty, and nothing is signalled.
func (r record) killGroup() {
	if r.Pid <= 1 || r.Boot != proctree.BootID() {
		return
	}
	if now, ok := proctree.StartTime(r.Pid); ok && now != r.Start {
		return
	}
	_ = unix.Kill(-r.Pid, unix.SIGKILL)
}

// endRest kills the leftovers of an ended process and of those before it. It returns the latest tokens of starts whose
// processes did not all end.
func (r record) endRest(within time.Duration) (left []string, err error) {
	if r.Boot != proctree.BootID() {
		return nil, nil
	}
	r.killGroup()
	end := time.Now().Add(within)
	for _, token := range append(slices.Clone(r.Left), r.Token) {
		if failed := proctree.End(token, time.Until(end)); failed != nil {
			left, err = append(left, token), errors.Join(err, failed)
		}
	}
	return left[max(0, len(left)-maxLeft):], err
}

// stop ends the process, its group and what left the group, and returns when they have ended. All of them share the
// time-out.
func (p *process) stop(within time.Duration) error {
	p.stopping.Store(true)
	end := time.Now().Add(within)
	p.signalGroup(unix.SIGTERM)
	inGroup := func(pid int) bool { s, _ := proctree.Read(pid); return s.Group == p.Pid }
	_, _ = proctree.Signal(p.Token, unix.SIGTERM, inGroup) // endRest returns what fails
	select {
	case <-p.exited:
		proctree.Await(p.Token, time.Until(end))
	case <-time.After(within):
		p.signalGroup(unix.SIGKILL)
		select {
		case <-p.exited:
		case <-time.After(killWithin):
			return fmt.Errorf("process %d did not end within %s after SIGKILL", p.Pid, killWithin)
		}
	}
	_, err := p.endRest(killWithin)
	return err
}

func (p *process) signalGroup(s unix.Signal) {
	if _, runs := p.find(); runs {
		_ = unix.Kill(-p.Pid, s)
	}
}

// runOnce runs a program to its end, for an agent that is a set-up. One that an earlier executor started is stopped
// first, since its exit status would be unknown. An interrupted one is killed with its group.
func (st *starts) runOnce(s Spec, interrupted <-chan struct{}) error {
	if err := (&unit{spec: s, starts: st}).Stop(); err != nil {
		return err
	}
	p, err := st.start(s, nil, zerolog.Nop()) // the stop has ended what was not recorded
	if err != nil {
		if p != nil { // it runs, and could not be recorded
			err = errors.Join(err, p.stop(s.StopWithin()))
		}
		return err
	}
	select {
	case <-p.exited:
		if p.how != ExitedWell {
			err = fmt.Errorf("%s: %s", s.Name, p.how)
		}
	case <-interrupted:
		err = errors.Join(fmt.Errorf("%s did not end in time", s.Name), p.stop(s.StopWithin()))
	}
	return errors.Join(err, removeRecord(s.Record))
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
