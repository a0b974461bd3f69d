package allinone_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// These tests run the real programs as the units of deploy/systemd, on a server that systemd runs: make systemd-test.
// The units are as they are delivered, but for the path of the programs, a shorter RestartSec and WatchdogSec, and the
// devices, which cannot be made in namespaces.

const (
	benchVariable = "GARRISON_TEST_BENCH"
	unitData      = "/var/lib/garrisond"
	unitSettings  = "/etc/garrison"
)

// unit is one service of systemd.
type unit struct {
	t    *testing.T
	name string
}

// unitOf returns a unit with shorter times. Its settings are lines of an environment file.
func unitOf(t *testing.T, name, settings, env string) unit {
	t.Helper()
	if os.Getenv(benchVariable) == "" {
		t.Skipf("%s is not set: make systemd-test", benchVariable)
	}
	template, _, _ := strings.Cut(name, "@")
	if strings.Contains(name, "@") {
		template += "@"
	} else {
		template = strings.TrimSuffix(name, ".service")
	}
	put(t, "/run/systemd/system/"+template+".service.d/test.conf",
		"[Service]\nRestartSec=200ms\nPrivateDevices=no\n"+settings)
	put(t, env, "GARRISON_LOG_LEVEL=info\n")
	u := unit{t, name}
	t.Cleanup(func() {
		u.ctl("stop", name)
		if t.Failed() {
			out, _ := exec.Command("systemctl", "status", "--no-pager", "--full", name).CombinedOutput()
			t.Logf("%s", out)
		}
	})
	u.ctl("daemon-reload")
	return u
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (u unit) ctl(args ...string) {
	u.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "systemctl", args...).CombinedOutput(); err != nil {
		status, _ := exec.Command("systemctl", "status", "--no-pager", "--full", u.name).CombinedOutput()
		u.t.Fatalf("systemctl %v: %v: %s\n%s", args, err, out, status)
	}
}

func (u unit) shows(property string) string {
	u.t.Helper()
	out, err := exec.Command("systemctl", "show", "--value", "-p", property, u.name).Output()
	if err != nil {
		u.t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func (u unit) main() int {
	u.t.Helper()
	pid, _ := strconv.Atoi(u.shows("MainPID"))
	return pid
}

// startedAgain signals the process, and returns when systemd has started another one that is ready.
func (u unit) startedAgain(signal syscall.Signal) {
	u.t.Helper()
	was := u.main()
	if err := syscall.Kill(was, signal); err != nil {
		u.t.Fatal(err)
	}
	polltest.Eventually(u.t, "systemd has started it again, and it is ready", func() bool {
		pid := u.main()
		return pid != 0 && pid != was && u.shows("ActiveState") == "active"
	})
}

// exposure returns how exposed systemd rates the unit, from 0 to 10.
func (u unit) exposure() float64 {
	u.t.Helper()
	out, err := exec.Command("systemd-analyze", "security", "--no-pager", u.name).Output()
	if err != nil {
		u.t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(out), "Overall exposure level for "+u.name+": ")
	number, _, _ := strings.Cut(rest, " ")
	rated, err := strconv.ParseFloat(number, 64)
	if !found || err != nil {
		u.t.Fatalf("systemd-analyze security prints %s", out)
	}
	return rated
}

const worstExposure = 2.0

func TestTheUnitOfGarrisondIsReadyWhenClientsAreServedAndComesBack(t *testing.T) {
	t.Parallel()
	u := unitOf(t, "garrisond.service", "WatchdogSec=5s\n", unitSettings+"/garrisond.env")
	serves := func() {
		t.Helper()
		if err := allinone.HealthOf(t.Context(), unitData); err != nil {
			t.Error(err)
		}
	}
	u.ctl("start", u.name) // it returns when the unit is ready
	serves()
	kept, err := os.ReadFile(unitData + "/address")
	if err != nil {
		t.Fatal(err)
	}
	if got := u.exposure(); got > worstExposure {
		t.Errorf("exposure %.1f, want at most %.1f", got, worstExposure)
	}
	owner, err := os.Stat(unitData + "/operator.json")
	if err != nil || owner.Mode().Perm() != 0o600 || owner.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Errorf("the operator's context is %v, %v", owner, err)
	}
	u.startedAgain(syscall.SIGKILL)
	serves()
	for range 2 { // the watchdog is served
		heard := u.shows("WatchdogTimestampMonotonic")
		polltest.Eventually(t, "systemd receives that it is alive",
			func() bool { return u.shows("WatchdogTimestampMonotonic") != heard })
	}
	u.startedAgain(syscall.SIGSTOP) // a process that hangs is ended by systemd
	serves()
	u.ctl("stop", u.name)
	if state, result := u.shows("ActiveState"), u.shows("Result"); state != "inactive" || result != "success" {
		t.Errorf("stopped: %s, %s", state, result)
	}
	if err := allinone.HealthOf(t.Context(), unitData); err == nil {
		t.Error("a stopped garrisond is called healthy")
	}
	if again, err := os.ReadFile(unitData + "/address"); err != nil || string(again) != string(kept) {
		t.Errorf("it listened at %s, then at %s: %v", kept, again, err)
	}
}

func TestTheUnitsOfTheServicesApartAreReadyWhenTheyAnswer(t *testing.T) {
	t.Parallel()
	// A garrisond without services is their bus.
	bus := unitOf(t, "garrisond.service", "Environment=GARRISON_SERVICES=none\n", unitSettings+"/garrisond.env")
	bus.ctl("start", bus.name)
	address, err := os.ReadFile(unitData + "/address")
	if err != nil {
		t.Fatal(err)
	}
	url := "tls://" + strings.TrimSpace(string(address))
	parts := unitData + "/parts"
	keys := exec.Command("setpriv", "--reuid=garrisond", "--regid=garrisond", "--clear-groups", "/usr-local/garrisond",
		"keys", "--data", unitData, "--url", url, "--hand-out", parts)
	if out, err := keys.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, service := range topology.Services {
		home := "/var/lib/garrison-" + service
		user := "garrison-" + service
		script := fmt.Sprintf("install -d -m 0700 -o %[1]s -g %[1]s %[2]s && cp -r %[3]s/%[4]s/trust %[2]s/ && "+
			"chown -R %[1]s: %[2]s", user, home, parts, service)
		if out, err := exec.Command("/bin/sh", "-c", script).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		settings := unitSettings + "/" + service + ".env"
		u := unitOf(t, "garrison@"+service+".service", "", settings)
		put(t, settings, "GARRISON_BUS="+url+"\nGARRISON_JOIN_URL="+url+"\n")
		u.ctl("start", u.name)
		if got := u.exposure(); got > worstExposure {
			t.Errorf("%s: exposure %.1f, want at most %.1f", service, got, worstExposure)
		}
		u.startedAgain(syscall.SIGKILL)
	}
}
