package engine

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
	"github.com/garrison-fleet/garrison/services/executor/internal/systemd"
)

// needsSystemd skips a test that is about systemd itself where it does not run: make systemd-test.
func needsSystemd(t *testing.T) {
	t.Helper()
	if !bySystemd() {
		t.Skipf("%s is not systemd", supervisorVariable)
	}
}

// services lists what systemd has of the workbench's agents.
func (b *workbench) services() []string {
	b.t.Helper()
	ours := systemd.Prefix(b.root) + "*"
	out, err := exec.Command("systemctl", "list-units", "--all", "--plain", "--no-legend", ours).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		names = append(names, strings.Fields(line)[0])
	}
	return names
}

// shows returns one property of a service that systemctl shows.
func shows(t *testing.T, service, property string) string {
	t.Helper()
	out, err := exec.Command("systemctl", "show", "--value", "-p", property, service).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func systemctl(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("systemctl", args...).CombinedOutput(); err != nil {
		t.Fatalf("systemctl %v: %v: %s", args, err, out)
	}
}

func killHard(t *testing.T, pid uint32) {
	t.Helper()
	if err := syscall.Kill(int(pid), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestAServiceIsInMemoryOnlyAndARemovalLeavesNothing(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	names := b.services()
	if len(names) != 1 || shows(t, names[0], "MainPID") != fmt.Sprint(r.good("cn-agent", "1.0.0").GetPid()) {
		t.Fatalf("services %v", names)
	}
	for property, want := range map[string]string{
		"Slice": "garrison.slice", "Transient": "yes", "Restart": "always", "Type": "notify",
		"UnitFileState": "transient",
	} {
		if got := shows(t, names[0], property); got != want {
			t.Errorf("%s is %q, want %q", property, got, want)
		}
	}
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	if names := b.services(); len(names) != 0 {
		t.Errorf("services %v are left", names)
	}
	for _, dir := range []string{"/etc/systemd", "/run/systemd/transient", "/run/systemd/system"} {
		if left, _ := filepath.Glob(dir + "/" + names[0] + "*"); len(left) != 0 {
			t.Errorf("files %v are left", left)
		}
	}
	if left := b.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestAnAgentKilledWhileNoExecutorRunsIsRestartedBySystemdAndTakenOver(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b, at := newBench(t), freeAddress(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	old := r.good("cn-agent", "1.0.0").GetPid()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	cmd := child{Root: b.root, Shelf: b.shelf}.start(t)
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for range 2 { // a second time it is systemd alone that knows of the sockets
		killHard(t, old)
		var pids []int // looked at once: the one that was killed may be seen for a moment
		b.eventually("systemd runs another one", func() bool {
			pids = b.pids()
			return len(pids) == 1 && pids[0] != int(old)
		})
		answers(t, at, "1.0.0")
		old = uint32(pids[0])
	}
	r = b.run()
	r.eventually("it is taken over", func() bool { return r.the("cn-agent").GetPid() == old })
	r.good("cn-agent", "1.0.0")
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "serve", listens(at), overlap))), taskv1.State_STATE_SUCCEEDED)
	answers(t, at, "2.0.0")
}

func TestWhatKeepsEndingIsGivenUpBySystemdAndTriedAgainWhenItRested(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	p := testPolicy
	p.Longest = 700 * time.Millisecond
	r := b.run(func(c *Config) { c.Supervisor = testSupervisor(c.Root, p) })
	m := b.image("cn-agent", "1.0.0", "lapse")
	outcome(t, r.do(b.want(m)), taskv1.State_STATE_SUCCEEDED)
	b.lapse("cn-agent")
	u := r.rooms.processes.Known("cn-agent", m.GetId())
	r.eventually("systemd has given up, and nothing runs", func() bool { // until it has rested
		return u.Status().CrashLoop && len(b.pids()) == 0 &&
			strings.Contains(r.the("cn-agent").GetReason(), "keeps ending: exit status 6")
	})
	r.eventually("it is tried again", func() bool { return len(b.pids()) == 1 })
	r.eventually("and rests again", func() bool { return len(b.pids()) == 0 })
}

func TestAVersionThatEndsIsSeenAlthoughSystemdStartsItAgain(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r := b.run(func(c *Config) {
		p := testPolicy
		p.First, p.CrashLoop = time.Millisecond, 100 // sooner than anybody can look, and again and again
		c.Supervisor = testSupervisor(c.Root, p)
	})
	long := func(m *imagev1.Manifest) { m.Run.Ready.SoakMs = 1500 }
	o := outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "later", long))), taskv1.State_STATE_UNDONE)
	if o.GetCode() != "EXITED" {
		t.Errorf("outcome %v", o)
	}
	if names := b.services(); len(names) != 0 {
		t.Errorf("services %v are left", names)
	}
}

func TestTwoRootsOnOneServerAreNotInEachOthersWay(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	one, two := newBench(t), newBench(t)
	r1, r2 := one.run(), two.run()
	outcome(t, r1.do(one.want(one.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	outcome(t, r2.do(two.want(two.image("cn-agent", "1.0.0", "ready"))), taskv1.State_STATE_SUCCEEDED)
	pid := r2.good("cn-agent", "1.0.0").GetPid()
	if r1.good("cn-agent", "1.0.0").GetPid() == pid {
		t.Error("they have the same process")
	}
	outcome(t, r1.do(one.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	if r2.good("cn-agent", "1.0.0").GetPid() != pid || len(one.pids()) != 0 {
		t.Error("the removal in one root was felt in the other")
	}
}

// It restarts the bus over which the other tests talk to systemd, so it is not parallel.
func TestAgentsOutliveWhateverHappensToSystemdAndItsBus(t *testing.T) {
	needsSystemd(t)
	b, at := newBench(t), freeAddress(t)
	r := b.run()
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	pid := r.good("cn-agent", "1.0.0").GetPid()
	systemctl(t, "daemon-reload")
	systemctl(t, "daemon-reexec")
	systemctl(t, "restart", "dbus")
	answers(t, at, "1.0.0")
	if got := r.good("cn-agent", "1.0.0").GetPid(); got != pid {
		t.Errorf("process %d, want %d", got, pid)
	}
	killHard(t, pid)
	r.eventually("it runs again and is known", func() bool {
		f := r.the("cn-agent")
		return f.GetPid() != 0 && f.GetPid() != pid && slices.Equal(b.pids(), []int{int(f.GetPid())})
	})
	answers(t, at, "1.0.0") // the sockets came through all of it
	outcome(t, r.do(b.want(b.image("cn-agent", "2.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	answers(t, at, "2.0.0")
}

func TestAgentsMoveFromOneSupervisorToTheOther(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b, at := newBench(t), freeAddress(t)
	direct := func(c *Config) { c.Supervisor = supervise.NewDirect(c.Root, testPolicy) }
	moved := func(r *running, old uint32) uint32 {
		r.eventually("it runs anew, once", func() bool {
			f := r.the("cn-agent")
			return f.GetPid() != 0 && f.GetPid() != old && slices.Equal(b.pids(), []int{int(f.GetPid())})
		})
		answers(t, at, "1.0.0")
		return r.the("cn-agent").GetPid()
	}
	r := b.run(direct)
	outcome(t, r.do(b.want(b.image("cn-agent", "1.0.0", "serve", listens(at)))), taskv1.State_STATE_SUCCEEDED)
	pid := r.good("cn-agent", "1.0.0").GetPid()
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run()
	pid = moved(r, pid)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if records, _ := filepath.Glob(filepath.Join(b.root.Run("cn-agent"), "process-*")); len(records) != 0 {
		t.Errorf("records %v are left", records)
	}
	// as the executor does when it is configured to be direct
	if err := newSystemd(b.root, testPolicy).Clear(); err != nil {
		t.Fatal(err)
	}
	moved(b.run(direct), pid)
	if names := b.services(); len(names) != 0 {
		t.Errorf("services %v are left", names)
	}
}

// looked returns what an agent that looks has seen.
func (b *workbench) looked() (seen struct {
	UID, GID int
	Groups   []int
	Args     []string
	Env      []string
	Home     bool
	Can      map[string]bool
}) {
	b.t.Helper()
	data, err := os.ReadFile(filepath.Join(b.root.State("cn-agent"), "looked"))
	if err != nil {
		b.t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(data, &seen); err != nil {
		b.t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		b.t.Fatal(err)
	}
	seen.Can = map[string]bool{}
	for name, can := range all {
		if is, ok := can.(bool); ok && filepath.IsAbs(name) {
			seen.Can[name] = is
		}
	}
	return seen
}
