package allinone_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/garrison-fleet/garrison/deploy/allinone/upgrade"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// upgrading is a unit whose program is upgraded, under a real systemd.
type upgrading struct {
	unit
	installed string // the path of its program
	record    string
}

func newUpgrading(t *testing.T) *upgrading {
	t.Helper()
	u := &upgrading{unitOf(t, "garrisond.service", "", unitSettings+"/garrisond.env"), "/usr-local/garrisond",
		filepath.Join("/var/lib", t.Name())}
	u.ctl("start", u.name)
	t.Cleanup(func() {
		u.install(bench("garrisond"))
		_ = os.RemoveAll(u.record)
	})
	return u
}

// install puts a program in the place of the one that is installed, as a package does.
func (u *upgrading) install(program string) {
	u.t.Helper()
	text, err := os.ReadFile(program)
	if err != nil {
		u.t.Fatal(err)
	}
	if err := os.WriteFile(u.installed+".new", text, 0o755); err != nil {
		u.t.Fatal(err)
	}
	if err := os.Rename(u.installed+".new", u.installed); err != nil {
		u.t.Fatal(err)
	}
}

// installScript installs a program that knows its version and does one thing when it rehearses, and one when it runs.
func (u *upgrading) installScript(version, rehearses, runs string) {
	u.t.Helper()
	path := filepath.Join(u.t.TempDir(), "script")
	put(u.t, path, "#!/bin/sh\ncase $1 in\n--version) echo garrisond "+version+" ;;\nrehearse) "+rehearses+
		" ;;\n*) "+runs+" ;;\nesac\n")
	u.install(path)
}

func (u *upgrading) command(args ...string) *exec.Cmd {
	return exec.Command(bench("garrisond"), append([]string{
		"upgrade", "--data", unitData, "--record", u.record, "--soak", "1s", "--within", "1m",
	}, args...)...)
}

// upgrade runs garrisond upgrade, which must print some texts.
func (u *upgrading) upgrade(good bool, says []string, args ...string) {
	u.t.Helper()
	out, err := u.command(args...).CombinedOutput()
	if (err == nil) != good {
		u.t.Fatalf("upgrade %v: %v: %s", args, err, out)
	}
	for _, text := range says {
		if !strings.Contains(string(out), text) {
			u.t.Errorf("upgrade %v prints no %q: %s", args, text, out)
		}
	}
}

// runs fails the test unless the unit runs, and has installed, a program of the bench.
func (u *upgrading) runs(program string) {
	u.t.Helper()
	want, err := os.ReadFile(bench(program))
	if err != nil {
		u.t.Fatal(err)
	}
	for _, path := range []string{u.installed, filepath.Join("/proc", u.shows("MainPID"), "exe")} {
		if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
			u.t.Errorf("%s is not %s (%v)", path, program, err)
		}
	}
	if state := u.shows("ActiveState"); state != "active" {
		u.t.Errorf("the unit is %s", state)
	}
}

func (u *upgrading) state() upgrade.State {
	var r upgrade.Record
	text, err := os.ReadFile(filepath.Join(u.record, "upgrade.json"))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return ""
	}
	return r.State
}

func bench(name string) string { return filepath.Join(os.Getenv(benchVariable), name) }

func TestTheUnitIsUpgradedAndCalledBack(t *testing.T) {
	u := newUpgrading(t)
	u.upgrade(true, []string{"nothing to do"})
	u.upgrade(false, []string{"no upgrade yet"}, "--show")
	u.upgrade(false, []string{"runs with the data in " + unitData}, "--data", "/var/lib/other")
	u.install(bench("garrisond-next"))
	u.upgrade(true, []string{"to 99.0.0", "rehearses on " + unitData}, "--plan")
	if pid := u.main(); u.state() != "" || pid == 0 {
		t.Errorf("a plan left a record: %s", u.state())
	}
	u.upgrade(true, []string{"good: with this version", "backup: ", "99.0.0 has served"}, "-m", "a fix")
	u.runs("garrisond-next")
	u.upgrade(true, []string{"serving", "reason: a fix", "to go back: garrisond upgrade --data"}, "--show")
	u.upgrade(false, []string{"is not finished"})
	u.upgrade(true, []string{"serves again"}, "--back")
	u.runs("garrisond")

	// Once it is finished, nothing is kept.
	u.install(bench("garrisond-next"))
	u.upgrade(true, []string{"done: 99.0.0 serves"})
	u.upgrade(true, nil, "--finish")
	if left, _ := filepath.Glob(u.record + "/*/*"); len(left) > 0 {
		t.Errorf("kept: %v", left)
	}
	u.upgrade(false, []string{"an upgrade that is finished cannot be called back"}, "--back")
}

func TestTheUnitKeepsItsProgramWhenAnotherFailsItsRehearsal(t *testing.T) {
	u := newUpgrading(t)
	pid := u.main()
	u.installScript("99.0.1", "echo this version does not know all facts; exit 1", "exit 1")
	u.upgrade(false, []string{"this version does not know all facts", "was not restarted"})
	u.runs("garrisond")
	if now := u.main(); now != pid || u.state() != upgrade.Refused {
		t.Errorf("process %d, and %d before; the upgrade is %s", now, pid, u.state())
	}
}

func TestTheUnitGoesBackWhenAnotherProgramDoesNotServe(t *testing.T) {
	u := newUpgrading(t)
	u.installScript("99.0.2", "echo good: ready", "echo no such flag; exit 1")
	u.upgrade(false, []string{"99.0.2 does not serve: systemd started it again", "is installed again, and serves"})
	u.runs("garrisond")
	if u.state() != upgrade.Back {
		t.Errorf("the upgrade is %s", u.state())
	}

	// What has served may fail later, and a person's umask is of no matter.
	u.install(bench("garrisond-next"))
	u.upgrade(true, []string{"done: 99.0.0 serves"})
	put(t, "/run/systemd/system/"+u.name+".d/failing.conf", "[Service]\nExecStartPre=/bin/false\n")
	u.ctl("daemon-reload")
	_ = exec.Command("systemctl", "restart", u.name).Run() // it fails
	u.upgrade(false, []string{"is not finished"})
	_ = os.Remove("/run/systemd/system/" + u.name + ".d/failing.conf")
	u.ctl("daemon-reload")
	old := syscall.Umask(0o077)
	u.upgrade(true, []string{"serves again"}, "--back")
	syscall.Umask(old)
	u.runs("garrisond")
}

func TestTheUnitIsUpgradedByACommandThatFollowsAKilledOne(t *testing.T) {
	u := newUpgrading(t)
	for _, at := range []upgrade.State{upgrade.Planned, upgrade.Rehearsed, upgrade.Started, upgrade.Returning} {
		u.install(bench("garrisond-next"))
		cmd := u.command("--soak", "1h")
		if at == upgrade.Returning {
			u.upgrade(true, nil)
			cmd = u.command("--soak", "1h", "--back")
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		polltest.Glimpsed(t, "the upgrade is "+string(at), func() bool { return u.state() == at })
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if at == upgrade.Returning {
			u.upgrade(true, []string{"serves again"}, "--back")
		} else {
			u.upgrade(true, []string{"done: 99.0.0 serves"})
			u.runs("garrisond-next")
			u.upgrade(true, nil, "--back")
		}
		u.runs("garrisond")
	}
}

// Root installs the program before again when it must. What others can write, a control plane that is taken over could
// have written.
func TestTheUnitIsUpgradedOnlyWhereRootAloneWritesPrograms(t *testing.T) {
	u := newUpgrading(t)
	u.install(bench("garrisond-next"))
	for _, change := range []func() error{
		func() error { return os.Chown(u.installed, 4242, 0) },
		func() error { return errors.Join(os.Chown(u.installed, 0, 0), os.Chmod(u.installed, 0o775)) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		u.upgrade(false, []string{"can be written by others than root"})
	}
	if u.state() != "" {
		t.Errorf("the upgrade is %s", u.state())
	}
}

// What starts the installed program too early, such as a crash, counts as its start.
func TestTheUnitIsUpgradedWhenACrashStartedTheInstalledProgram(t *testing.T) {
	u := newUpgrading(t)
	u.installScript("99.0.0", "sleep 600", "exit 1")
	cmd := u.command()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	polltest.Eventually(t, "it rehearses", func() bool { return u.state() == upgrade.Planned })
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	u.ctl("restart", "--no-block", u.name)
	polltest.Eventually(t, "systemd starts it again and again", func() bool { return u.shows("NRestarts") > "0" })
	u.upgrade(false, []string{"is installed again, and serves"})
	u.runs("garrisond")
}
