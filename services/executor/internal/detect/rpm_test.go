package detect

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
