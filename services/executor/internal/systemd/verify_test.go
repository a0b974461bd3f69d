package systemd

import (
	"os"
	"os/user"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// This process has no limit and no sandbox, like a service of a systemd that skips them.
func TestLimitsAndConfinementsThatTheKernelLacksAreFound(t *testing.T) {
	s := state{pid: os.Getpid()}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if err := verifyLimits(s.pid, nil); err != nil {
		t.Errorf("without limits: %v", err)
	}
	for key, l := range map[string]*imagev1.Limits{
		"memory": {MemoryBytes: 1}, "pids": {Tasks: 1}, "cpu": {CpuPercent: 1},
		"limits.open_files": {OpenFiles: files.Max + 1},
	} {
		err := verifyLimits(s.pid, l)
		if key == "pids" && err != nil && strings.Contains(err.Error(), "limits.tasks") ||
			err != nil && strings.Contains(err.Error(), key) {
			continue
		}
		t.Errorf("%s: got %v", key, err)
	}
	if err := verifySandbox(s.pid, nil); err != nil {
		t.Errorf("without limits: %v", err)
	}
	for key, b := range map[string]*imagev1.Sandbox{
		"sandbox.private_tmp": {PrivateTmp: true}, "sandbox.no_homes": {NoHomes: true},
		"sandbox.user": {User: other(t)},
	} {
		if err := verifySandbox(s.pid, b); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

// other returns the name of a user who does not run this test.
func other(t *testing.T) string {
	t.Helper()
	if os.Geteuid() == 0 {
		u, err := user.LookupId("65534")
		if err != nil {
			t.Skip(err)
		}
		return u.Username
	}
	return "root"
}

func TestACapabilityHasTheNumberOfTheKernel(t *testing.T) {
	for name, want := range map[string]int{
		"CAP_CHOWN": unix.CAP_CHOWN, "CAP_NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
		"CAP_SYS_PTRACE": unix.CAP_SYS_PTRACE, "CAP_SYS_TIME": unix.CAP_SYS_TIME,
		"CAP_AUDIT_WRITE": unix.CAP_AUDIT_WRITE, "CAP_SETFCAP": unix.CAP_SETFCAP,
		"CAP_CHECKPOINT_RESTORE": unix.CAP_CHECKPOINT_RESTORE, "CHOWN": -1, "CAP_NONE": -1, "": -1,
	} {
		if got := capability(name); got != want {
			t.Errorf("%q has the number %d, want %d", name, got, want)
		}
	}
	if n := len(capabilities); n != unix.CAP_LAST_CAP+1 {
		t.Errorf("%d capabilities, want %d", n, unix.CAP_LAST_CAP+1)
	}
}
