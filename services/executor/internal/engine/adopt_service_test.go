package engine

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/services/executor/internal/detect"
)

// service is a service of systemd that no executor made, as a package brings one.
type service struct {
	*workbench
	name, program, at string
}

// service installs, enables and starts a service that runs the test agent's program. More are lines of [Service].
func (b *workbench) service(more string) service {
	b.t.Helper()
	s := service{
		workbench: b, at: freeAddress(b.t), program: filepath.Join(b.t.TempDir(), "packaged"),
		name: fmt.Sprintf("packaged-%d-%d.service", os.Getpid(), time.Now().UnixNano()),
	}
	s.install("")
	text := "[Service]\nType=notify\nExecStart=" + s.program + " serve\nEnvironment=ADDRESS=" + s.at + "\n" + more +
		"\n[Install]\nWantedBy=multi-user.target\n"
	file := "/etc/systemd/system/" + s.name
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		b.t.Fatal(err)
	}
	systemctl(b.t, "daemon-reload")
	b.t.Cleanup(func() {
		systemctl(b.t, "disable", "--now", s.name)
		_ = os.Remove(file)
		systemctl(b.t, "daemon-reload")
	})
	systemctl(b.t, "enable", "--now", s.name)
	return s
}

// install puts the test agent's program, followed by some bytes, into the place of the service's.
func (s service) install(more string) {
	s.t.Helper()
	next := s.program + ".next"
	if err := writeProgram(next, append(slices.Clone(agentBinary), more...)); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(next, s.program); err != nil {
		s.t.Fatal(err)
	}
}

func (s service) candidate() string { return detect.UnitID(s.name) }

// pid returns the service's main process.
func (s service) pid() uint32 {
	pid, _ := strconv.ParseUint(shows(s.t, s.name, "MainPID"), 10, 32)
	return uint32(pid)
}

// image is an image of what the service runs.
func (s service) image(version, what string) *imagev1.Manifest {
	return s.workbench.image("cn-agent", version, what, listensItself(s.at))
}

// is fails the test unless the service is as said: active or not, and starting with the machine or not.
func (s service) is(active, enabled string) {
	s.t.Helper()
	if a, e := shows(s.t, s.name, "ActiveState"), shows(s.t, s.name, "UnitFileState"); a != active || e != enabled {
		s.t.Errorf("%s is %s and %s; want %s and %s", s.name, a, e, active, enabled)
	}
}

// adopted waits until the service's present process is listed as the agent.
func (s service) adopted(r *running, same bool) (f *reportv1.Found) {
	s.t.Helper()
	r.eventually("the service's process is the agent", func() bool {
		f = r.the("cn-agent")
		a := f.GetAdoption()
		return f.GetPid() != 0 && f.GetPid() == s.pid() && a.GetPid() == f.GetPid() && a.GetService() == s.name &&
			a.GetSame() == same && f.GetHealth() == instancev1.Health_HEALTH_GOOD
	})
	return f
}

func TestAServiceIsAdoptedAndReleasedWithoutARestart(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r, s := b.run(), b.service("Restart=no")
	pid, stop := s.pid(), asking(s.at, time.Millisecond)
	process := detect.ProcessID(int(pid), startTime(t, int(pid)))
	o := outcome(t, r.do(b.adopt(s.image("1.0.0", "serve"), process)), taskv1.State_STATE_UNDONE)
	if o.Code != code.NotAdoptable {
		t.Errorf("its process alone: %v", o)
	}
	o = outcome(t, r.do(b.adopt(s.image("1.0.0", "serve"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
	if a := o.Adoption; a.GetPid() != pid || !a.Same || a.Service != s.name || len(a.ExeSha256) != 32 {
		t.Errorf("proven by %v", a)
	}
	again := s.workbench.image("vm-agent", "1.0.0", "serve")
	o = outcome(t, r.do(b.adopt(again, s.candidate())), taskv1.State_STATE_UNDONE)
	if o.Code != code.CandidateManaged {
		t.Errorf("adopted twice: %v", o)
	}
	b.drop("vm-agent")
	b.settleDocument()
	for range 2 {
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = b.run(func(c *Config) { c.StopAgents = true })
		s.adopted(r, true)
	}
	found, err := newScan(testConfig(b.root, b.shelf, r.j, zerolog.Nop(), nil))(t.Context(), &serverv1.Scan{})
	if err != nil || slices.ContainsFunc(found.GetCandidates(), func(c *serverv1.Candidate) bool {
		return c.Unit == s.name
	}) {
		t.Errorf("a scan lists what is adopted: %v", err)
	}
	outcome(t, r.do(b.release("cn-agent")), taskv1.State_STATE_SUCCEEDED)
	if left := b.agentsLeft(); len(left) > 0 || r.the("cn-agent") != nil {
		t.Errorf("released: left %v, found %v", left, r.the("cn-agent"))
	}
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if asked, wrong := stop(); asked == 0 || len(wrong) > 0 {
		t.Errorf("asked %d times; failed: %v", asked, wrong)
	}
	s.is("active", "enabled")
	if n := shows(t, s.name, "NRestarts"); s.pid() != pid || n != "0" {
		t.Errorf("process %d runs, want %d; %s restarts", s.pid(), pid, n)
	}
}

func TestAnAdoptedServiceThatEndsIsStartedBySystemdOrElseByTheExecutor(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	for _, restart := range []string{"Restart=no", "Restart=always\nRestartSec=1ms"} {
		b := newBench(t)
		r, s := b.run(), b.service(restart)
		outcome(t, r.do(b.adopt(s.image("1.0.0", "serve"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
		b.settleDocument()
		r.offer()
		old := s.pid()
		killHard(t, old)
		b.eventually("another process runs", func() bool { return s.pid() != 0 && s.pid() != old })
		s.adopted(r, true)
		s.install("as an upgrade of its package")
		systemctl(t, "restart", s.name)
		if f := s.adopted(r, false); f.GetImage().GetVersion() != "unknown" {
			t.Errorf("%s: with another program it is %v", restart, f)
		}
		if names := b.services(); len(names) > 0 {
			t.Errorf("%s: Garrison started %v beside it", restart, names)
		}
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnUpgradeReplacesAnAdoptedServiceAndARollbackBringsItBack(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r, s := b.run(), b.service("Restart=always")
	outcome(t, r.do(b.adopt(s.image("1.0.0", "serve"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
	old := s.pid()
	bad := s.image("2.0.0", "mute") // which is never ready
	outcome(t, r.do(b.wantWith(bad, taskv1.Verb_VERB_UPGRADE, nil)), taskv1.State_STATE_UNDONE)
	s.is("active", "enabled")
	if f := s.adopted(r, true); f.GetPid() == old || f.GetImage().GetVersion() != "1.0.0" {
		t.Errorf("after the rollback: %v", f)
	}
	outcome(t, r.do(b.wantWith(s.image("3.0.0", "serve"), taskv1.Verb_VERB_UPGRADE, nil)), taskv1.State_STATE_SUCCEEDED)
	s.is("inactive", "disabled")
	if f := r.good("cn-agent", "3.0.0"); f.Adoption != nil {
		t.Errorf("after the upgrade: %v", f)
	}
	answers(t, s.at, "3.0.0")
	o := outcome(t, r.do(b.release("cn-agent")), taskv1.State_STATE_UNDONE)
	if o.Code != code.NotAdopted {
		t.Errorf("released with %v", o)
	}
}

// What an operator of the server disabled is shown, and neither enabled nor started by the executor.
func TestAnAdoptedServiceThatWasDisabledIsShownAndNotStarted(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r, s := b.run(), b.service("Restart=no")
	outcome(t, r.do(b.adopt(s.image("1.0.0", "serve"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
	b.settleDocument()
	r.offer()
	disabled := func(what string, pid uint32) {
		t.Helper()
		r.eventually(what, func() bool {
			f := r.the("cn-agent")
			return f.GetCode() == code.ServiceDisabled && f.GetPid() == pid &&
				f.GetHealth() == instancev1.Health_HEALTH_BAD && strings.Contains(f.GetReason(), s.name+" is disabled")
		})
	}
	pid := s.pid()
	systemctl(t, "disable", s.name)
	disabled("a service that runs and is disabled is shown", pid)
	systemctl(t, "stop", s.name)
	disabled("a stopped one is shown", 0)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = b.run() // the next executor leaves it as well
	disabled("a stopped one is shown by the next executor", 0)
	s.is("inactive", "disabled")
	systemctl(t, "enable", "--now", s.name)
	s.adopted(r, true)
	s.is("active", "enabled")
}

func TestARemovalEndsAnAdoptedServiceAndLeavesItsFiles(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r, s := b.run(), b.service("Restart=always")
	outcome(t, r.do(b.adopt(s.image("1.0.0", "serve"), s.candidate())), taskv1.State_STATE_SUCCEEDED)
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	s.is("inactive", "disabled")
	for _, path := range []string{s.program, "/etc/systemd/system/" + s.name} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("removed with it: %v", err)
		}
	}
	if left := b.left(); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// units makes units of systemd from files by name, until the test ends.
func units(t *testing.T, files map[string]string) {
	t.Helper()
	t.Cleanup(func() {
		names := slices.Sorted(maps.Keys(files))
		systemctl(t, append([]string{"stop"}, names...)...)
		for _, name := range names {
			_ = os.Remove("/etc/systemd/system/" + name)
		}
		systemctl(t, "daemon-reload")
	})
	for name, text := range files {
		if err := os.WriteFile("/etc/systemd/system/"+name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	systemctl(t, "daemon-reload")
}

func TestAServiceThatCannotBeAdoptedIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	r := b.run()
	one := b.image("cn-agent", "1.0.0", "ready")
	refused := func(unit, want string) {
		t.Helper()
		o := outcome(t, r.do(b.adopt(one, detect.UnitID(unit))), taskv1.State_STATE_UNDONE)
		if o.Code != want || len(b.agentsLeft()) > 0 {
			t.Errorf("%s: %v, left %v; want %s", unit, o, b.agentsLeft(), want)
		}
	}
	if !bySystemd() {
		refused("cron.service", code.NotAdoptable)
		return
	}
	refused("missing.service", code.CandidateGone)
	s := b.service("Restart=no")
	systemctl(t, "stop", s.name)
	refused(s.name, code.CandidateGone)
	socket := strings.TrimSuffix(s.name, "service") + "socket"
	units(t, map[string]string{socket: "[Socket]\nFileDescriptorName=main\nListenStream=" + s.at + "\n"})
	systemctl(t, "start", socket)
	systemctl(t, "start", s.name)
	refused(s.name, code.NotAdoptable)
	s.is("active", "enabled")
	// One that cannot be disabled, and that another unit starts, would be back after a reboot.
	static, target := "static-"+s.name, strings.TrimSuffix(s.name, "service")+"target"
	units(t, map[string]string{
		static: "[Service]\nExecStart=/usr/bin/sleep 600\n", target: "[Unit]\nWants=" + static + "\n",
	})
	systemctl(t, "start", target, static)
	refused(static, code.NotAdoptable)
	// So would one for whose name D-Bus starts a service.
	named := "named-" + s.name
	units(t, map[string]string{
		named: "[Service]\nType=simple\nExecStart=/usr/bin/sleep 600\nBusName=org.freedesktop.hostname1\n",
	})
	systemctl(t, "start", named)
	if _, err := os.Stat("/usr/share/dbus-1/system-services/org.freedesktop.hostname1.service"); err == nil {
		refused(named, code.NotAdoptable)
	}
	once := "once-" + s.name
	if out, err := exec.Command("systemd-run", "--unit", once, "sleep", "600").CombinedOutput(); err != nil {
		t.Fatalf("systemd-run: %v: %s", err, out)
	}
	t.Cleanup(func() { systemctl(t, "stop", once) })
	refused(once, code.NotAdoptable)
}

// An alias that exists only while its service is enabled, such as sshd.service, means that service.
func TestAServiceThatIsAdoptedByAnAliasComesBackByItsName(t *testing.T) {
	t.Parallel()
	needsSystemd(t)
	b := newBench(t)
	r, alias := b.run(), fmt.Sprintf("alias-%d-%d.service", os.Getpid(), time.Now().UnixNano())
	s := b.service("Restart=always\n[Install]\nAlias=" + alias)
	outcome(t, r.do(b.adopt(s.image("1.0.0", "serve"), detect.UnitID(alias))), taskv1.State_STATE_SUCCEEDED)
	s.adopted(r, true)
	again := s.workbench.image("vm-agent", "1.0.0", "serve")
	o := outcome(t, r.do(b.adopt(again, s.candidate())), taskv1.State_STATE_UNDONE)
	if o.Code != code.CandidateManaged {
		t.Errorf("adopted twice: %v", o)
	}
	b.drop("vm-agent")
	bad := s.image("2.0.0", "mute") // which is never ready
	outcome(t, r.do(b.wantWith(bad, taskv1.Verb_VERB_UPGRADE, nil)), taskv1.State_STATE_UNDONE)
	s.is("active", "enabled")
	s.adopted(r, true)
	outcome(t, r.do(b.unwant("cn-agent", instanceOf("cn-agent"))), taskv1.State_STATE_SUCCEEDED)
	s.is("inactive", "disabled")
}
