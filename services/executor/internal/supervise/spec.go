package supervise

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// Spec describes how to run one slot's process.
type Spec struct {
	Agent       string
	Image       string // the image's id; with the agent it names the slot
	Name        string // for people
	Record      string // the path of the slot's record
	Output      string // stdout and stderr are appended to this file
	Dir         string // the working directory
	Path        string
	Args        []string
	Env         []string
	StopTimeout time.Duration // 0 means DefaultStopTimeout
	Notify      bool          // the process sends READY=1
	Limits      *imagev1.Limits
	Sandbox     *imagev1.Sandbox

	// Hold blocks the restart of an ended process until it returns; it returns false when stop was closed before. Nil
	// does not block.
	Hold func(stop <-chan struct{}) bool

	// Cause returns what keeps the process from running, after it ended or was not started. Nil knows none.
	Cause func() Cause

	// Sockets returns the process's listening sockets at each start; nil when it has none. The files are closed after
	// the start.
	Sockets func() (names []string, files []*os.File, err error)
}

// DefaultStopTimeout applies when a manifest sets none (image.proto, Run).
const DefaultStopTimeout = 10 * time.Second

// Held waits until the process may be started again, and returns false when stop was closed before. It reads only what
// never changes: the environment may be set meanwhile.
func (s *Spec) Held(stop <-chan struct{}) bool { return s.Hold == nil || s.Hold(stop) }

// StopWithin returns how long the process has to end after SIGTERM.
func (s *Spec) StopWithin() time.Duration {
	return cmp.Or(s.StopTimeout, DefaultStopTimeout)
}

// The limits and confinements that Direct can enforce, as garrison.yaml names them.
const (
	limitOpenFiles   = "limits.open_files"
	sandboxUser      = "sandbox.user"
	sandboxNoNewPriv = "sandbox.no_new_privileges"
)

// asked returns the limits and confinements that a run asks for.
func asked(run *imagev1.Run) (keys []string) {
	l, s := run.GetLimits(), run.GetSandbox()
	for _, k := range []struct {
		name string
		set  bool
	}{
		{"limits.memory", l.GetMemoryBytes() > 0},
		{"limits.cpu", l.GetCpuPercent() > 0},
		{"limits.tasks", l.GetTasks() > 0},
		{limitOpenFiles, l.GetOpenFiles() > 0},
		{sandboxUser, s.GetUser() != ""},
		{sandboxNoNewPriv, s.GetNoNewPrivileges()},
		{"sandbox.read_only_system", s.GetReadOnlySystem()},
		{"sandbox.private_tmp", s.GetPrivateTmp()},
		{"sandbox.no_homes", s.GetNoHomes()},
		{"sandbox.capabilities", s.GetBoundCapabilities()},
	} {
		if k.set {
			keys = append(keys, k.name)
		}
	}
	return keys
}

// checkDirect refuses limits and confinements that a process cannot apply to itself before it becomes the agent.
func checkDirect(run *imagev1.Run, root layout.Root) error {
	keys := slices.DeleteFunc(asked(run), func(k string) bool {
		return k == limitOpenFiles || k == sandboxUser || k == sandboxNoNewPriv
	})
	if len(keys) > 0 {
		return refuseConfine("without systemd this server cannot enforce %s", strings.Join(keys, ", "))
	}
	if err := checkOpenFiles(run.GetLimits().GetOpenFiles()); err != nil {
		return err
	}
	return CheckUser(run.GetSandbox().GetUser(), root)
}

// checkOpenFiles refuses more than the executor's own limit, unless it is root.
func checkOpenFiles(want uint64) error {
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		return err
	}
	if os.Geteuid() != 0 && want > own.Max {
		return refuseConfine("%s is %d, but this executor is not root and is limited to %d itself",
			limitOpenFiles, want, own.Max)
	}
	return nil
}
