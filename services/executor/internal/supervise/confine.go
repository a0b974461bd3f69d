package supervise

import (
	"os"
	"slices"
	"strings"
	"syscall"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// CodeCannotConfine refuses an image whose limits or sandbox this server cannot keep.
const CodeCannotConfine = "CANNOT_CONFINE"

// The bounds and confinements that a run may ask for, as garrison.yaml names them.
const (
	limitOpenFiles   = "limits.open_files"
	sandboxUser      = "sandbox.user"
	sandboxNoNewPriv = "sandbox.no_new_privileges"
)

// asked lists the bounds and confinements that a run asks for.
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

// checkDirect refuses what a process cannot be given before it becomes the agent.
func checkDirect(run *imagev1.Run, root layout.Root) error {
	keys := slices.DeleteFunc(asked(run), func(k string) bool {
		return k == limitOpenFiles || k == sandboxUser || k == sandboxNoNewPriv
	})
	if len(keys) > 0 {
		return refuseConfine("without systemd this server cannot keep %s", strings.Join(keys, ", "))
	}
	if err := checkOpenFiles(run.GetLimits().GetOpenFiles()); err != nil {
		return err
	}
	return CheckUser(run.GetSandbox().GetUser(), root)
}

// checkOpenFiles refuses more than we may have ourselves, unless we are root.
func checkOpenFiles(want uint64) error {
	var own syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &own); err != nil {
		return err
	}
	if os.Geteuid() != 0 && want > own.Max {
		return refuseConfine("%s is %d; this executor may have %d itself, and is not root", limitOpenFiles, want, own.Max)
	}
	return nil
}
