package release_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

var formats = []string{"deb", "rpm"}

// states are what an operator may have done to the unit before an upgrade.
var states = map[string]string{
	"never touched":        "true",
	"enabled and running":  "systemctl enable --now garrisond",
	"enabled and stopped":  "systemctl enable --now garrisond; systemctl stop garrisond",
	"running, not enabled": "systemctl start garrisond",
	"enabled, then not":    "systemctl enable garrisond; systemctl disable garrisond",
	"masked":               "systemctl mask garrisond",
	"masked while it runs": "systemctl start garrisond; systemctl mask garrisond",
}

func TestInstalledUnitsKeepTheirStateThroughUpgrades(t *testing.T) {
	for _, format := range formats {
		for name, script := range states {
			t.Run(format+" "+name, func(t *testing.T) {
				m := newMachine(t, format)
				m.install("1", "garrisond")
				if got := m.unit("garrisond"); got != (unit{"disabled", "inactive", "0", "0"}) {
					t.Fatalf("after the installation: %+v", got)
				}
				m.sh(script)
				want := m.unit("garrisond")
				for _, release := range []string{"2", "3"} {
					out := m.install(release, "garrisond")
					if got := m.unit("garrisond"); got != want {
						t.Errorf("release %s: %+v, want %+v", release, got, want)
					}
					says := strings.Contains(out, "garrisond upgrade --data /var/lib/garrisond")
					if says != (want.active == "active") {
						t.Errorf("release %s prints %q of a unit that is %s", release, out, want.active)
					}
				}
				if out := m.sh("garrisond --version"); !strings.Contains(out, " 0.3.0-local.g") {
					t.Errorf("installed is %s", out)
				}
				m.checkRemoval(want)
				m.sh("systemctl unmask garrisond")
			})
		}
	}
}

// checkRemoval removes garrisond, and looks at what stays.
func (m *machine) checkRemoval(before unit) {
	t := m.t
	t.Helper()
	put(t, "/etc/garrison/garrisond.env", "GARRISON_LOG_LEVEL=info\n")
	put(t, "/var/lib/garrisond/kept", "")
	link := "/etc/systemd/system/multi-user.target.wants/garrisond.service"
	if m.format == "deb" {
		m.remove(false, "garrisond")
		if _, err := os.Lstat(link); (err == nil) != (before.enabled == "enabled") {
			t.Errorf("a removal changed what is enabled: %v", err)
		}
	}
	m.remove(true, "garrisond")
	if active, _ := m.try("systemctl is-active garrisond"); active != "inactive" {
		t.Errorf("removed, garrisond is %s", active)
	}
	mask := "/etc/systemd/system/garrisond.service"
	for _, path := range m.left() {
		if path != mask || before.enabled != "masked" {
			t.Errorf("removed, there is %s", path)
		}
	}
	if masked, _ := os.Readlink(mask); (masked == "/dev/null") != (before.enabled == "masked") {
		t.Errorf("the operator's mask is %q", masked)
	}
	for _, kept := range []string{"/etc/garrison/garrisond.env", "/var/lib/garrisond/kept"} {
		if _, err := os.Stat(kept); err != nil {
			t.Error(err)
		}
	}
}

func TestInstalledAgentsNeverNotice(t *testing.T) {
	for _, format := range formats {
		t.Run(format, func(t *testing.T) {
			m := newMachine(t, format)
			m.install("1", packages...)
			pid := m.startAgent()
			was := []unit{m.unit("garrisond"), m.unit("garrison-executor")}
			same := func(when string) {
				t.Helper()
				if now := m.agent(); now != pid {
					t.Errorf("%s, the agent is process %s, not %s", when, now, pid)
				}
			}
			for _, release := range []string{"2", "3"} {
				out := m.install(release, packages...)
				if now := m.unit("garrisond"); now != was[0] {
					t.Errorf("garrisond: %+v, then %+v", was[0], now)
				}
				if now := m.unit("garrison-executor"); now != was[1] {
					t.Errorf("the executor: %+v, then %+v", was[1], now)
				}
				if !strings.Contains(out, "systemctl restart garrison-executor") {
					t.Errorf("it prints %s", out)
				}
				same("after release " + release)
			}
			m.eventually("garrison server list --no-headers --columns executor | grep -q 0.1.0")
			m.sh(`garrisond upgrade --data /var/lib/garrisond --soak 1s
				garrisond upgrade --data /var/lib/garrisond --finish
				systemctl restart garrison-executor`)
			m.eventually("garrison server list --no-headers --columns executor | grep -q 0.3.0")
			same("after the restart")
			m.remove(false, "garrison-executor")
			same("after the removal")
			m.remove(true, "garrison-executor")
			same("after the purge")
			m.install("2", "garrison-executor")
			m.sh("systemctl start garrison-executor")
			m.eventually("garrison server list --no-headers --columns executor | grep -q 0.2.0")
			same("installed again")
			m.sh("systemctl stop garrison-executor 'garrison-*-*.service'")
		})
	}
}

// startAgent starts garrisond and an executor, installs an agent, and returns its process id.
func (m *machine) startAgent() string {
	m.t.Helper()
	put(m.t, "/root/agent/garrison.yaml", "agent: sleeper\nversion: 1.0.0\nkind: daemon\nrun: {command: run}\n")
	put(m.t, "/root/agent/run", "#!/bin/sh\nexec sleep 100000\n")
	m.sh(`chmod +x /root/agent/run; systemctl enable --now garrisond; rm -f /root/token /root/agent.gimg
		garrison server enroll web-1 --token-file /root/token
		executor join --root /var/lib/garrison --token-file /root/token
		systemctl enable --now garrison-executor
		garrison agent create sleeper; garrison image build /root/agent --out /root/agent.gimg
		garrison image import /root/agent.gimg --activate; garrison install sleeper --on web-1 --yes`)
	m.eventually("pgrep -fx 'sleep 100000'")
	m.eventually("garrison instance list --no-headers --columns found | grep -qx 1.0.0")
	return m.agent()
}

func (m *machine) agent() string {
	pid, _ := m.try("pgrep -fx 'sleep 100000'")
	return pid
}

// A machine that is cloned from an image with the packages enables every unit at its first boot, by the presets of
// Debian, and needrestart restarts what runs a replaced program.
func TestInstalledPackagesLeaveUnitsToTheOperator(t *testing.T) {
	m := newMachine(t, "deb")
	m.install("1", "garrisond", "garrison-executor")
	m.sh("systemctl preset garrisond garrison-executor garrison@registry")
	for _, name := range []string{"garrisond", "garrison-executor", "garrison@registry"} {
		if got := m.unit(name).enabled; got != "disabled" {
			t.Errorf("%s is %s by the presets", name, got)
		}
	}
	matches := m.sh(`perl -e 'our %nrconf; for (glob "/etc/needrestart/conf.d/garrison*") { do $_; die $@ if $@ }
		for $unit (@ARGV) { for (keys %{$nrconf{override_rc}}) {
			print "$unit\n" if $unit =~ /$_/ && !$nrconf{override_rc}{$_} } }' \
		garrisond.service garrison@registry.service garrison-executor.service garrison-0123-beacon-4567.service \
		ssh.service`)
	if got := len(strings.Fields(matches)); got != 4 || strings.Contains(matches, "ssh") {
		t.Errorf("needrestart leaves alone: %s", matches)
	}
	owners := m.sh(`dpkg -L garrisond garrison-executor | sort -u | xargs stat -c '%U:%G' | sort -u`)
	if owners != "root:root" {
		t.Errorf("files belong to %s", owners)
	}
	m.sh("echo '# mine' >> /etc/needrestart/conf.d/garrisond.conf")
	m.install("2", "garrisond") // asks nothing
	m.sh("grep -q '# mine' /etc/needrestart/conf.d/garrisond.conf")
}

func TestInstalledByTheInstaller(t *testing.T) {
	m := newMachine(t, "deb")
	server := httptest.NewServer(http.FileServer(http.Dir(m.bench)))
	defer server.Close()
	damaged, unsigned := m.copied("damaged"), m.copied("unsigned")
	m.sh(fmt.Sprintf("for f in %s/garrison_*; do echo >>$f; done; rm %s/SHA256SUMS.sig", damaged, unsigned))
	install := func(args string) (string, error) {
		return m.try("sh " + m.bench + "/1/install.sh " + args)
	}
	good := func(args, version string) {
		t.Helper()
		if out, err := install(args); err != nil {
			t.Fatalf("%s: %v: %s", args, err, out)
		}
		if out := m.sh("garrison --version"); !strings.Contains(out, version) {
			t.Errorf("%s: installed is %s", args, out)
		}
	}
	bad := func(args, want string) {
		t.Helper()
		if out, err := install(args); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v: want %q, it prints %s", args, err, want, out)
		}
	}
	keys := "--keys " + m.bench + "/keys-1 "
	bad(m.bench+"/1", "usage:")
	bad("--wrong "+m.bench+"/1 garrison", "usage:")
	bad(m.bench+"/1 beacon", "no package beacon")
	bad(m.bench+" garrison", "not a release of Garrison")
	bad(keys+damaged+" garrison", "is damaged")
	bad(keys+unsigned+" garrison", "is not signed")
	bad("--keys "+m.bench+"/c.pub "+m.bench+"/1 garrison", "no key in")
	bad("--keys /nonexistent "+m.bench+"/1 garrison", "holds no key")
	bad("--keys '' "+m.bench+"/1 garrison", "holds no key")
	bad("--keys /dev/null "+m.bench+"/1 garrison", "holds no key")
	bad(server.URL+"/1 garrison", "no release keys are known")
	bad(unsigned+" garrison", "no release keys are known")
	if _, err := exec.LookPath("garrison"); err == nil {
		t.Fatal("a refused release was installed")
	}
	good(keys+server.URL+"/1 garrison", " 0.1.0-local")
	bad(m.bench+"/made-1 garrison", "not a release")
	bad(unsigned+" garrison", "is not signed") // the installed package brought the keys
	good(m.bench+"/2/ garrison garrisond", " 0.2.0-local")
	good(m.bench+"/3 garrison garrisond", " 0.3.0-local")
	bad(m.bench+"/1 garrison", "no key in") // signed by the key that release 3 no longer brings
	bad(m.bench+"/2 garrison", "is newer than 0.2.0")
	if out := m.sh("garrison --version"); !strings.Contains(out, " 0.3.0") {
		t.Errorf("went back to %s", out)
	}
	m.remove(false, "garrison")
	good(m.bench+"/2 garrison", " 0.2.0-local")
	m.remove(true, packages...)
	m.sh("mv /usr/bin/dpkg-query /usr/bin/rpm /root/ || true") // a machine without both
	good(keys+m.bench+"/1 garrison garrisond", " 0.1.0-local")
	good(m.bench+"/2 garrison garrisond", " 0.2.0-local")
	bad(m.bench+"/1 garrison", "is newer than 0.1.0")
	m.sh("test -z \"$(find / -xdev -name '*.garrison-new')\"; systemctl start garrisond; garrison whoami")
	m.sh(`systemctl stop garrisond; for a in ` + m.bench + `/2/*.tar.gz; do tar -tzf $a | sed s:^:/: | xargs rm -f; done
		for p in dpkg-query rpm; do [ ! -e /root/$p ] || mv /root/$p /usr/bin/; done`)
}

// copied copies the first release.
func (m *machine) copied(name string) string {
	m.t.Helper()
	dir := filepath.Join(m.t.TempDir(), name)
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(m.bench, "1"))); err != nil {
		m.t.Fatal(err)
	}
	return dir
}
