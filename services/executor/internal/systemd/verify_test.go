package systemd

import (
	"os"
	"strings"
	"syscall"
	"testing"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
)

// This process was started without any of it, as a service is by a systemd that goes on without.
func TestWhatTheKernelDoesNotKeepIsFound(t *testing.T) {
	s := state{pid: os.Getpid()}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if err := verifyLimits(s, nil); err != nil {
		t.Errorf("nothing was asked for: %v", err)
	}
	for key, l := range map[string]*imagev1.Limits{
		"memory": {MemoryBytes: 1}, "pids": {Tasks: 1}, "cpu": {CpuPercent: 1}, "limits.open_files": {OpenFiles: files.Max + 1},
	} {
		err := verifyLimits(s, l)
		if key == "pids" && err != nil && strings.Contains(err.Error(), "limits.tasks") || err != nil && strings.Contains(err.Error(), key) {
			continue
		}
		t.Errorf("%s: got %v", key, err)
	}
	if err := verifySandbox(s.pid, nil); err != nil {
		t.Errorf("nothing was asked for: %v", err)
	}
	for key, b := range map[string]*imagev1.Sandbox{
		"sandbox.private_tmp": {PrivateTmp: true}, "sandbox.no_homes": {NoHomes: true}, "sandbox.user": {User: other(t)},
	} {
		if err := verifySandbox(s.pid, b); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: got %v", key, err)
		}
	}
}

// other names a user who is not the one that runs this.
func other(t *testing.T) string {
	t.Helper()
	if os.Geteuid() == 0 {
		return "nobody"
	}
	return "root"
}
