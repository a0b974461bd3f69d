package supervise

import (
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/polltest"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func TestLimitsThatCannotBeEnforcedAreRefusedByName(t *testing.T) {
	d := NewDirect(layout.Root(t.TempDir()), quick)
	if err := d.Check(&imagev1.Run{Limits: &imagev1.Limits{}, Sandbox: &imagev1.Sandbox{}}); err != nil {
		t.Errorf("a run without limits: %v", err)
	}
	err := d.Check(&imagev1.Run{
		Limits:  &imagev1.Limits{MemoryBytes: 1, CpuPercent: 1, Tasks: 1},
		Sandbox: &imagev1.Sandbox{ReadOnlySystem: true, PrivateTmp: true, NoHomes: true, BoundCapabilities: true},
	})
	r := fault.RefusalOf(err)
	const want = "limits.memory, limits.cpu, limits.tasks, " +
		"sandbox.read_only_system, sandbox.private_tmp, sandbox.no_homes, sandbox.capabilities"
	if r.GetCode() != code.CannotConfine || !strings.HasSuffix(r.GetMessage(), want) {
		t.Errorf("got %v", err)
	}
}

// A process limits and confines itself before it becomes the agent.
func TestPrivilegesAndLimitsAreLoweredBeforeTheExecOfTheAgent(t *testing.T) {
	s := shell(t,
		`echo $(id -u) $(ulimit -n) $(ulimit -Hn) $(grep NoNewPrivs /proc/self/status) > state/said; sleep 60`)
	s.Limits, s.Sandbox = &imagev1.Limits{OpenFiles: 77}, &imagev1.Sandbox{NoNewPrivileges: true}
	want, dir := "77 77 NoNewPrivs: 1", filepath.Join(s.Dir, "state")
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "old"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := user.LookupId(otherUID); err == nil && os.Geteuid() == 0 {
		s.Sandbox.User, want = other.Username, other.Uid+" "+want
		for d := s.Dir; d != "/"; d = filepath.Dir(d) {
			if info, err := os.Stat(d); err == nil && info.Mode()&0o001 == 0 {
				if err := os.Chmod(d, 0o711); err != nil {
					t.Fatal(err)
				}
			}
		}
	} else {
		want = strconv.Itoa(os.Geteuid()) + " " + want
	}
	s.Path, s.Args, s.Dir = "/bin/sh", []string{"-c", strings.ReplaceAll(s.Args[1], "state/", "")}, dir
	begin(t, startable(t, s))
	var said string
	polltest.Eventually(t, "it printed its rights", func() bool {
		data, _ := os.ReadFile(filepath.Join(dir, "said"))
		said = strings.TrimSpace(string(data))
		return said != ""
	})
	if said != want {
		t.Errorf("it is %q, want %q", said, want)
	}
	if s.Sandbox.User == "" {
		return
	}
	for _, path := range []string{dir, filepath.Join(dir, "old")} {
		if info, err := os.Stat(path); err != nil ||
			strconv.Itoa(int(info.Sys().(*syscall.Stat_t).Uid)) != strings.Fields(want)[0] {
			t.Errorf("%s is not its own: %v", path, err)
		}
	}
}

func TestAUserWhoIsUnknownOrCannotReachTheRootIsRefused(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	other, err := user.LookupId(otherUID)
	if err != nil {
		t.Skip(err)
	}
	d := NewDirect(layout.Root(closed), quick)
	for _, name := range []string{"no-such-user", other.Username} { // the latter could not reach the root
		err := d.Check(&imagev1.Run{Sandbox: &imagev1.Sandbox{User: name}})
		if r := fault.RefusalOf(err); r.GetCode() != code.CannotConfine || !strings.Contains(r.GetMessage(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestAProgramBesideAnAgentHasTheAgentsPrivileges(t *testing.T) {
	s := shell(t, "")
	if path, args, err := s.Beside("/bin/check", []string{"a"}); path != "/bin/check" || len(args) != 1 || err != nil {
		t.Errorf("got %s %v: %v", path, args, err)
	}
	s.Limits, s.Sandbox = &imagev1.Limits{OpenFiles: 66}, &imagev1.Sandbox{NoNewPrivileges: true}
	path, args, err := s.Beside("/bin/sh", []string{"-c", "ulimit -n; grep NoNewPrivs /proc/self/status"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if got := strings.Join(strings.Fields(string(out)), " "); err != nil || got != "66 NoNewPrivs: 1" {
		t.Errorf("it printed %q: %v", got, err)
	}
}
