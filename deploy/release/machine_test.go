package release_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The tests of installed packages run on a machine of their own, which release-test.sh starts with a real systemd. They
// share it, so that none runs beside another.
const benchVariable = "GARRISON_TEST_BENCH"

// machine is that machine, with packages of one format.
type machine struct {
	t      *testing.T
	bench  string
	format string
}

func newMachine(t *testing.T, format string) *machine {
	t.Helper()
	m := &machine{t, os.Getenv(benchVariable), format}
	if m.bench == "" {
		t.Skipf("%s is not set: make release-test", benchVariable)
	}
	if format == "rpm" {
		if _, err := exec.LookPath("rpm"); err != nil {
			t.Skip("this machine has no rpm")
		}
		m.sh("rpm --initdb")
	}
	for _, unit := range []string{"garrisond.service", "garrison-executor.service"} { // namespaces have no devices
		put(t, "/run/systemd/system/"+unit+".d/test.conf", "[Service]\nPrivateDevices=no\nRestartSec=200ms\n")
	}
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := m.try("journalctl --no-pager -n 50; systemctl status --no-pager 'garrison*'")
			t.Logf("%s", out)
		}
		m.remove(true, packages...)
		m.sh("rm -rf /var/lib/garrisond /var/lib/garrison /etc/garrison; systemctl daemon-reload")
	})
	return m
}

var packages = []string{"garrisond", "garrison-executor", "garrison"}

func (m *machine) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-ec", script)
	cmd.Env = append(os.Environ(), "GARRISON_CONTEXT=/var/lib/garrisond/operator.json",
		"DEBIAN_FRONTEND=noninteractive", "HOME=/root", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (m *machine) sh(script string) string {
	m.t.Helper()
	out, err := m.try(script)
	if err != nil {
		m.t.Fatalf("%s: %v: %s", script, err, out)
	}
	return out
}

// file returns the package file of a release.
func (m *machine) file(release, name string) string {
	m.t.Helper()
	pattern := map[string]string{"deb": name + "_*.deb", "rpm": name + "-[0-9]*.rpm"}[m.format]
	found, err := filepath.Glob(filepath.Join(m.bench, release, pattern))
	if err != nil || len(found) != 1 {
		m.t.Fatalf("release %s has %v, %v", release, found, err)
	}
	return found[0]
}

// install installs packages of a release, and returns what that prints.
func (m *machine) install(release string, names ...string) string {
	m.t.Helper()
	var files []string
	for _, name := range names {
		files = append(files, m.file(release, name))
	}
	command := "apt-get install -y -q "
	if m.format == "rpm" {
		command = "rpm -U --nodeps " // the shell of this machine is not of an rpm
	}
	return m.sh(command + strings.Join(files, " "))
}

func (m *machine) remove(purge bool, names ...string) {
	m.t.Helper()
	for _, name := range names {
		switch {
		case m.format == "deb" && purge:
			m.sh("dpkg --purge " + name + " 2>&1")
		case m.format == "deb":
			m.sh("apt-get remove -y -q " + name)
		default:
			m.sh("! rpm -q " + name + " >/dev/null || rpm -e " + name)
		}
	}
}

// unit is the state of a unit, as an upgrade must leave it.
type unit struct{ enabled, active, pid, restarts string }

func (m *machine) unit(name string) unit {
	m.t.Helper()
	enabled, _ := m.try("systemctl is-enabled " + name) // ends with 1 when it is not
	shown := func(property string) string { return m.sh("systemctl show --value -p " + property + " " + name) }
	return unit{enabled, shown("ActiveState"), shown("MainPID"), shown("NRestarts")}
}

// eventually waits until a script succeeds.
func (m *machine) eventually(script string) {
	m.t.Helper()
	var out string
	var err error
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(200 * time.Millisecond) {
		if out, err = m.try(script); err == nil {
			return
		}
	}
	m.t.Fatalf("%s: %v: %s", script, err, out)
}

// left returns the files of Garrison below the directories into which packages install.
func (m *machine) left() []string {
	m.t.Helper()
	out := m.sh(`find /etc /usr -xdev -name '*garrison*' -not -path '/usr/local/*' -not -path '/usr/src/*'`)
	return slices.DeleteFunc(strings.Fields(out), func(path string) bool {
		return path == "/etc/garrison" || strings.HasPrefix(path, "/etc/garrison/")
	})
}
