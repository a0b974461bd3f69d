package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/version"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/lifecycle"
	"github.com/garrison-fleet/garrison/services/executor/internal/monitor"
	"github.com/garrison-fleet/garrison/services/executor/internal/proctree"
)

// Writer writes the status at an interval.
type Writer struct {
	Root     layout.Root
	Engine   *engine.Engine
	Standing func() monitor.Standing
	Identity identity.Identity
	Interval time.Duration
	Note     func() string
	Log      zerolog.Logger
}

// Run writes the status now and at the interval, until ctx ends.
func (w *Writer) Run(ctx context.Context) error {
	tick := time.NewTicker(w.Interval)
	defer tick.Stop()
	for {
		s, err := w.Read()
		w.write(s, err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// End writes the last status of an executor that was stopped.
func (w *Writer) End(agentsStopped bool) {
	s, err := w.Read()
	s.State, s.process, s.Connected = Stopped, process{}, false
	for i := range s.Agents {
		if agentsStopped {
			s.Agents[i].Health, s.Agents[i].Pid, s.Agents[i].StartedAt = Stopped, 0, time.Time{}
		}
	}
	w.write(s, err)
}

// write writes a status unless reading it failed. It only logs an error: the agents matter more,
// and a health check notices an old status.
func (w *Writer) write(s Status, err error) {
	if err == nil {
		err = write(w.Root, s)
	}
	if err != nil {
		w.Log.Warn().Err(err).Msg("status not written")
	}
}

// Read returns the status now.
func (w *Writer) Read() (Status, error) {
	is, err := w.Engine.Status()
	s := Status{
		ServerID: w.Identity.ServerID, Cell: w.Identity.Cell, At: time.Now(), Version: version.Version,
		process: thisProcess(), Applied: is.Applied, Outbox: is.Outbox, Note: w.Note(),
		Busy: is.Busy, Ahead: is.Ahead, Agents: []Agent{},
	}
	s.stand(w.Standing())
	for _, f := range is.Agents {
		a := Agent{
			Agent: f.GetAgent(), InstanceID: f.GetInstanceId(),
			Version: f.GetImage().GetVersion(), ImageID: f.GetImage().GetId(),
			Health: word(f.GetHealth().String(), "HEALTH_"), Reason: f.GetReason(), Pid: f.GetPid(),
		}
		if f.GetStartedAt() != nil {
			a.StartedAt = f.GetStartedAt().AsTime()
		}
		if f.GetNextAt() != nil {
			a.NextTry = f.GetNextAt().AsTime()
		}
		if step, ok := is.Steps[f.GetAgent()]; ok {
			a.Step = word(step.String(), "STEP_")
		}
		s.Agents = append(s.Agents, a)
	}
	return s, err
}

var states = map[lifecycle.Action]string{
	lifecycle.Work: Running, lifecycle.Suspend: Suspended, lifecycle.Rest: Resting, lifecycle.Uninstall: Uninstalling,
}

// stand sets the state of the executor itself.
func (s *Status) stand(is monitor.Standing) {
	s.State, s.Code, s.Reason = states[is.Outcome.Action], is.Outcome.Code, is.Why()
	s.Connected = is.Access.Login == bus.LoginIn
	if s.Code != "" {
		s.Since = is.Since
	}
	if !s.Connected {
		s.NextTry = is.Access.NextTry
		if is.Access.Reason != "" {
			s.Reason = strings.TrimPrefix(s.Reason+" ("+is.Access.Reason+")", " ")
		}
	}
}

// word returns an enum's value in lower case without its prefix.
func word(value, prefix string) string { return strings.ToLower(strings.TrimPrefix(value, prefix)) }

// reservedBehind is the room on the disk behind the text of a status, for a longer one on a full disk.
const reservedBehind = 8 << 10

// write replaces the status, whole or not at all. On a full disk it is written into the room that the last one has.
// When that fails too, the time of the file shows that the executor runs.
func write(root layout.Root, s Status) error {
	s.Stamp = fileFormat.Stamp()
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	path := root.Status()
	err = layout.WriteVolatile(path, data, 0o644)
	if err == nil {
		reserve(path, int64(len(data)))
		return nil
	}
	inPlace := overwrite(path, data)
	if inPlace == nil {
		return nil
	}
	now := time.Now()
	return errors.Join(err, inPlace, os.Chtimes(path, now, now))
}

// reserve takes room behind a status of n bytes. Where the file system cannot reserve, nothing is held.
func reserve(path string, n int64) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	_ = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, n+reservedBehind)
}

// overwrite writes a status over the last one. A shorter one is filled up with line ends: a shorter file would give
// back its room. Readers that use readFile never see a part of it.
func overwrite(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("overwrite status: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("overwrite status: it is being read: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("overwrite status: %w", err)
	}
	if missing := info.Size() - int64(len(data)); missing > 0 {
		data = append(data, bytes.Repeat([]byte{'\n'}, int(missing))...)
	} else if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(len(data))); err != nil {
		return fmt.Errorf("overwrite status: %w", err) // before the first byte is written
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		return fmt.Errorf("overwrite status: %w", err)
	}
	return nil
}

// readFile reads a status and returns when it was last written or could not be written.
func readFile(path string) (data []byte, touched time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, touched, fmt.Errorf("read status: %w", err)
	}
	defer func() { _ = f.Close() }()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		return nil, touched, fmt.Errorf("read status: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, touched, fmt.Errorf("read status: %w", err)
	}
	if data, err = io.ReadAll(f); err != nil {
		return nil, touched, fmt.Errorf("read status: %w", err)
	}
	return data, info.ModTime(), nil
}

// process is the process that wrote a status. Its id alone does not identify it: the kernel reuses
// ids, and an id means another process in another namespace, as on the host of a container.
type process struct {
	Pid       int    `json:"pid,omitempty"`
	Started   uint64 `json:"process_started,omitempty"` // in clock ticks since the boot
	Namespace string `json:"pid_namespace,omitempty"`
}

// thisProcess returns this one.
func thisProcess() process {
	p := process{Pid: os.Getpid(), Namespace: pidNamespace()}
	p.Started, _ = proctree.StartTime(p.Pid)
	return p
}

// gone reports whether the process has ended. A process of another namespace, or without a start
// time, does not count as gone.
func (p process) gone() bool {
	if p.Pid == 0 || p.Started == 0 || p.Namespace == "" || p.Namespace != pidNamespace() {
		return false
	}
	started, ok := proctree.StartTime(p.Pid)
	return !ok || started != p.Started
}

// pidNamespace returns the namespace of this process's id, or "" when it cannot be read.
func pidNamespace() string {
	name, _ := os.Readlink("/proc/self/ns/pid")
	return name
}
