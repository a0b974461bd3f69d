package detect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const status = `Package: nginx
Status: install ok installed
Priority: optional
Section: web
Architecture: amd64
Version: 1.22.1-9
Description: small server
 with a second line: of text

Package: gone
Status: deinstall ok config-files
Version: 1

Package: libfoo
Status: install ok installed
Priority: optional
Section: libs
Architecture: amd64
Version: 3

Package: bash
Essential: yes
Status: install ok installed
Priority: required
Section: shells
Architecture: amd64
Version: 5.2`

func TestPackagesOfDpkgAreReadWithTheirFiles(t *testing.T) {
	root := t.TempDir()
	write(t, root, "var/lib/dpkg/status", status, 0o644)
	write(t, root, "var/lib/dpkg/info/nginx.list",
		"/.\n/usr\n/usr/sbin\n/usr/sbin/nginx\n/usr/lib\n/usr/lib/systemd\n/usr/lib/systemd/system\n"+
			"/usr/lib/systemd/system/nginx.service\n/usr/share/doc/nginx/copyright\n", 0o644)
	write(t, root, "var/lib/dpkg/info/libfoo:amd64.list", "/.\n/usr/lib/libfoo.so.3\n", 0o644)
	write(t, root, "var/lib/dpkg/info/bash.list", "/bin/bash\n", 0o644)
	nginx := "dpkg/nginx 1.22.1-9 [/usr/sbin/nginx /usr/lib/systemd/system/nginx.service] +1"
	for all, want := range map[bool][]string{
		false: {nginx},
		true:  {"dpkg/bash 5.2 [/bin/bash]", "dpkg/libfoo 3 [] +1", nginx},
	} {
		got := lines(run(t, Config{Root: root}, all, "dpkg"))
		for n := range got { // the first entry, /. , is a file of its own in a package that holds nothing else there
			got[n] = strings.Replace(got[n], " +2", " +1", 1)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("all %v (-want +got):\n%s", all, diff)
		}
	}
	s := &Scan{Config: Config{Root: root}}
	owners := dpkg{}.owners(t.Context(), s, map[string]bool{"/usr/sbin/nginx": true, "/usr/bin/bash": true, "/x": true})
	if diff := cmp.Diff(map[string]string{"/usr/sbin/nginx": "nginx", "/usr/bin/bash": "bash"}, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

// A package that dpkg itself installed is found with its files, its version and what it owns.
func TestAPackageThatDpkgInstalledIsFound(t *testing.T) {
	for _, program := range []string{"dpkg", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("SKIPPED: dpkg installs as root only")
	}
	dir, root := t.TempDir(), t.TempDir()
	write(t, dir, "DEBIAN/control", "Package: beacon\nVersion: 2:1.4.0-1~x\nArchitecture: all\nSection: net\n"+
		"Priority: optional\nMaintainer: ops <ops@example.com>\nDescription: says its version\n at a port\n", 0o644)
	write(t, dir, "opt/beacon/beacon", "#!/bin/sh\n", 0o755)
	write(t, dir, "opt/beacon/beacon.conf", "", 0o644)
	write(t, dir, "usr/lib/systemd/system/beacon.service", "[Service]\nExecStart=/opt/beacon/beacon\n", 0o644)
	for _, d := range []string{"info", "updates", "triggers"} {
		if err := os.MkdirAll(filepath.Join(root, "var/lib/dpkg", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, root, "var/lib/dpkg/status", "", 0o644)
	deb := filepath.Join(t.TempDir(), "beacon.deb")
	for _, args := range [][]string{
		{"dpkg-deb", "--build", "--root-owner-group", dir, deb},
		{"dpkg", "--root=" + root, "--log=" + filepath.Join(t.TempDir(), "log"), "--install", deb},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	const found = "dpkg/beacon 2:1.4.0-1~x [/opt/beacon/beacon /opt/beacon/beacon.conf " +
		"/usr/lib/systemd/system/beacon.service]"
	got := lines(run(t, Config{Root: root}, false, "dpkg"))
	if len(got) != 1 || !strings.HasPrefix(got[0], found) {
		t.Errorf("found %q, want %q", got, found)
	}
	owners := dpkg{}.owners(t.Context(), &Scan{Config: Config{Root: root}}, map[string]bool{"/opt/beacon/beacon": true})
	if owners["/opt/beacon/beacon"] != "beacon" {
		t.Errorf("owners %v", owners)
	}
}

func TestPackagesOfRpmAreReadFromItsProgram(t *testing.T) {
	text := "/usr/lib/systemd/system/web.service\n/usr/sbin/web\n/etc/web.conf\n= web 2.4-1.el9 x86_64\n" +
		"/usr/share/words\n= words 1-1 noarch\n/usr/lib/systemd/system/systemd-x.service\n= systemd 252-1 x86_64\n"
	root := t.TempDir()
	write(t, root, "packages", text, 0o644)
	write(t, root, "usr/bin/rpm", "#!/bin/sh\ncase $1 in -qa) cat "+root+"/packages;; "+
		"-qf) shift 3; for f; do case $f in /usr/sbin/web) echo web;; "+
		"*) echo \"file $f is not owned by any package\";; "+
		"esac; done;; esac\n", 0o755)
	web := "rpm/web.x86_64 2.4-1.el9 [/usr/lib/systemd/system/web.service /usr/sbin/web] +1"
	if diff := cmp.Diff([]string{web}, lines(run(t, Config{Root: root}, false, "rpm"))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(run(t, Config{Root: root}, true, "rpm").Candidates); n != 3 {
		t.Errorf("%d packages with all, want 3", n)
	}
	owners := rpm{}.owners(t.Context(), &Scan{Config: Config{Root: root}},
		map[string]bool{"/usr/sbin/web": true, "/usr/bin/other": true})
	if diff := cmp.Diff(map[string]string{"/usr/sbin/web": "web"}, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

func TestTritonsAgentsAreFoundAndNoLinkLeadsOutOfTheirDirectory(t *testing.T) {
	root := t.TempDir()
	const modules = "opt/smartdc/agents/lib/node_modules/"
	write(t, root, modules+"cn-agent/package.json", `{"name": "cn-agent", "version": "2.10.0"}`, 0o644)
	write(t, root, modules+"cn-agent/image_uuid", "4cf2d1f6-0000-4000-8000-000000000001\n", 0o644)
	write(t, root, "opt/smartdc/agents/etc/cn-agent", "11111111-0000-4000-8000-000000000002\n", 0o644)
	write(t, root, "opt/smartdc/agents/smf/cn-agent.xml", "<x/>", 0o644)
	write(t, root, modules+"cn-agent.updating-to.4cf2d1f6/package.json", `{"name": "old"}`, 0o644)
	write(t, root, modules+"broken/package.json", `{`, 0o644)
	write(t, root, "secret.json", `{"version": "stolen"}`, 0o600)
	write(t, root, modules+"thief/README", "", 0o644)
	link := filepath.Join(root, modules, "thief/package.json")
	if err := os.Symlink(filepath.Join(root, "secret.json"), link); err != nil {
		t.Fatal(err)
	}
	write(t, root, "usr/bin/sysinfo", "#!/bin/sh\n"+
		"echo '{\"SDC Agents\": [{\"name\": \"cn-agent\", \"version\": \"1\"}, "+
		"{\"name\": \"firewaller\", \"version\": \"1.4.0\"}]}'\n", 0o755)
	r := run(t, Config{Root: root}, false, "apm")
	want := []string{
		"apm/cn-agent 2.10.0 [/opt/smartdc/agents/smf/cn-agent.xml]", "apm/firewaller 1.4.0 []",
	}
	if diff := cmp.Diff(want, lines(r)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if c := r.Candidates[0]; c.State != "image 4cf2d1f6-0000-4000-8000-000000000001, "+
		"instance 11111111-0000-4000-8000-000000000002" {
		t.Errorf("state %q", c.State)
	}
	if why := reasons(r); len(why) != 1 || !strings.Contains(why[0], "agent broken") ||
		!strings.Contains(why[0], "agent thief") {
		t.Errorf("reasons %q", why)
	}
}

// webSpec makes a package with a service, one that shares a file with it, and one without files.
const webSpec = `Name: webd
Version: 2.4
Release: 1
Summary: a daemon
License: none
%%description
a daemon
%%install
mkdir -p %%{buildroot}/usr/sbin %%{buildroot}/usr/lib/systemd/system %%{buildroot}/usr/share/webd
install -m 755 %[1]s/program %%{buildroot}/usr/sbin/webd
install -m 755 %[1]s/program %%{buildroot}/usr/sbin/shared
install -m 644 %[1]s/program %%{buildroot}/usr/lib/systemd/system/webd.service
install -m 644 %[1]s/program "%%{buildroot}/usr/share/webd/a b"
%%files
/usr/sbin/webd
/usr/sbin/shared
/usr/lib/systemd/system/webd.service
"/usr/share/webd/a b"
%%package -n both
Summary: shares a file
%%description -n both
x
%%files -n both
/usr/sbin/shared
%%package -n empty
Summary: nothing
%%description -n empty
x
%%files -n empty
`

// withRPM returns a root with packages that rpm itself built and installed. It skips without rpm and rpmbuild, and for
// another user than root, who cannot give rpm another root.
func withRPM(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("rpm")
	build, missing := exec.LookPath("rpmbuild")
	if err != nil || missing != nil || os.Getuid() != 0 {
		t.Skip("needs rpm, rpmbuild and root")
	}
	dir, root := t.TempDir(), t.TempDir()
	write(t, dir, "program", "#!/bin/sh\n", 0o755)
	write(t, dir, "web.spec", fmt.Sprintf(webSpec, dir), 0o644)
	do := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
	}
	do(build, "--define", "_topdir "+dir, "--define", "_tmppath "+dir, "--define", "_dbpath "+dir+"/db",
		"--define", "debug_package %{nil}", "-bb", filepath.Join(dir, "web.spec"))
	packages, err := filepath.Glob(dir + "/RPMS/*/*.rpm")
	if err != nil || len(packages) != 3 {
		t.Fatalf("%q %v; want three packages", packages, err)
	}
	do(program, append([]string{
		"--root", root, "--dbpath", "/var/lib/rpm", "--nodeps", "--ignorearch", "-i",
	}, packages...)...)
	write(t, root, "usr/bin/rpm", "#!/bin/sh\nexec "+program+" --root "+root+" --dbpath /var/lib/rpm \"$@\"\n", 0o755)
	return root
}

// The database and the output are those of rpm itself.
func TestPackagesAndOwnersAreReadFromRPMItself(t *testing.T) {
	root := withRPM(t)
	found := lines(run(t, Config{Root: root}, false, "rpm"))
	want := []string{fmt.Sprintf("rpm/webd.%s 2.4-1 [/usr/lib/systemd/system/webd.service /usr/sbin/shared "+
		"/usr/sbin/webd] +1", machine(t))}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := len(run(t, Config{Root: root}, true, "rpm").Candidates); n != 3 {
		t.Errorf("%d packages with all; want 3", n)
	}
	owners := rpm{}.owners(t.Context(), &Scan{Config: Config{Root: root}}, map[string]bool{
		"/usr/sbin/webd": true, "/usr/sbin/shared": true, "/usr/bin/env": true, "/usr/bin/gone": true,
		"/usr/sbin/webd (deleted)": true, "/usr/lib/systemd/system/webd.service": true,
	})
	shared := owners["/usr/sbin/shared"]
	delete(owners, "/usr/sbin/shared")
	if shared != "webd" && shared != "both" {
		t.Errorf("the shared file is of %q", shared)
	}
	owned := map[string]string{"/usr/sbin/webd": "webd", "/usr/lib/systemd/system/webd.service": "webd"}
	if diff := cmp.Diff(owned, owners); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
}

// machine returns the architecture of rpm's packages on this machine.
func machine(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("rpm", "--eval", "%{_target_cpu}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out[:len(out)-1])
}

// A path that is gone, or that two packages own, costs no other path its owner.
func TestOnePathWithAnotherNumberOfLinesCostsNoOtherItsOwner(t *testing.T) {
	root := t.TempDir()
	write(t, root, "usr/bin/rpm", `#!/bin/sh
shift 3
for f; do
  case $f in
  /usr/sbin/web) echo web ;;
  /usr/sbin/shared) echo web; echo both ;;
  /usr/sbin/gone) echo "error: file $f: No such file or directory" >&2 ;;
  *) echo "file $f is not owned by any package" ;;
  esac
done
`, 0o755)
	paths := map[string]bool{
		"/usr/bin/a": true, "/usr/sbin/gone": true, "/usr/sbin/shared": true, "/usr/sbin/web": true,
		"/usr/sbin/z": true,
	}
	owners := rpm{}.owners(t.Context(), &Scan{Config: Config{Root: root}}, paths)
	want := map[string]string{"/usr/sbin/web": "web", "/usr/sbin/shared": "web"}
	if diff := cmp.Diff(want, owners); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
