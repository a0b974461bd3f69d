package release_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/garrison-fleet/garrison/deploy/release"
)

// againVariable names a file of options: the test binary makes that release, as a process with another environment.
const againVariable = "GARRISON_TEST_RELEASE"

func TestMakesTheReleaseOfAnotherProcess(t *testing.T) {
	path := os.Getenv(againVariable)
	if path == "" {
		t.Skip("TestTheSameCommitMakesTheSameBytes starts it")
	}
	var o release.Options
	if err := json.Unmarshal([]byte(read(t, path)), &o); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) { // its clock is at another year
		if time.Now().Year() != 2000 {
			t.Errorf("the clock is at %v", time.Now())
		}
		if _, err := release.Make(t.Context(), o); err != nil {
			t.Error(err)
		}
	})
}

// another runs the test above with another umask, zone, locale and user environment, and where it can be, host name.
func another(t *testing.T, o release.Options) {
	t.Helper()
	options := filepath.Join(t.TempDir(), "options.json")
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	put(t, options, string(text))
	script := `umask 077; exec "$0" -test.v -test.run '^TestMakesTheReleaseOfAnotherProcess$'`
	args := []string{"sh", "-c", script, os.Args[0]}
	if exec.CommandContext(t.Context(), "unshare", "--uts", "true").Run() == nil {
		args[2] = "hostname elsewhere && " + script
		args = append([]string{"unshare", "--uts"}, args...)
	}
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(os.Environ(), againVariable+"="+options, "TZ=Asia/Tokyo", "LC_ALL=C", "USER=other",
		"SOURCE_DATE_EPOCH=1", "GOFLAGS=-mod=mod", "GOAMD64=v3", "CGO_ENABLED=1", "GOMAXPROCS=1")
	if out := run(t, cmd); !strings.Contains(out, "--- PASS: TestMakesTheReleaseOfAnotherProcess") {
		t.Fatalf("it made no release: %s", out)
	}
}

func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		all[e.Name()] = read(t, filepath.Join(dir, e.Name()))
	}
	return all
}

func TestTheSameCommitMakesTheSameBytes(t *testing.T) {
	t.Parallel()
	root, out := tinyTree(t), t.TempDir()
	elsewhere := filepath.Join(t.TempDir(), "a", "longer path", "of another name")
	git(t, root, "clone", "-q", root, elsewhere)
	public, seed := newKey(t)
	spare, _ := newKey(t)
	o := release.Options{
		Root: root, Out: filepath.Join(out, "one"), Version: "1.2.3-rc.1", Archs: []string{runtime.GOARCH},
		Keys: []string{spare, public}, Seed: seed,
	}
	dir, err := release.Make(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	one := files(t, dir)
	o.Root, o.Out = elsewhere, filepath.Join(out, "two")
	another(t, o)
	two := files(t, filepath.Join(o.Out, "1.2.3-rc.1"))
	if len(one) != len(two) || len(one) != 3*3+8+3 {
		t.Errorf("%d and %d files, want %d", len(one), len(two), 3*3+8+3)
	}
	for name, data := range one {
		if two[name] != data {
			t.Errorf("%s differs", name)
		}
	}
	t.Run("Bill", func(t *testing.T) { checkBill(t, one["garrison-1.2.3-rc.1-linux-"+runtime.GOARCH+".cdx.json"]) })
	t.Run("Archive", func(t *testing.T) { checkArchive(t, one) })
	t.Run("Verify", func(t *testing.T) { checkVerify(t, dir, spare, public) })
	o.Root, o.Out = root, filepath.Dir(dir)
	if _, err := release.Make(t.Context(), o); err == nil {
		t.Error("a release was overwritten")
	}
}

// checkVerify changes a release in each way that Verify refuses.
func checkVerify(t *testing.T, dir, spare, public string) {
	stranger, _ := newKey(t)
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(10 * 365 * 24 * time.Hour)
		for _, keys := range [][]string{nil, {public}, {stranger, public}, {public, spare}} {
			if err := release.Verify(dir, keys); err != nil {
				t.Errorf("%d keys, in %d: %v", len(keys), time.Now().Year(), err)
			}
		}
	})
	bad := func(what string, keys []string, change func(dir string) error) {
		t.Helper()
		copied := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := change(copied); err != nil {
			t.Fatal(err)
		}
		if err := release.Verify(copied, keys); err == nil {
			t.Errorf("%s: was not noticed", what)
		}
	}
	append1 := func(name string) func(string) error {
		return func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.WriteString("\n")
			}
			return err
		}
	}
	nothing := func(string) error { return nil }
	bad("another key", []string{stranger}, nothing)
	bad("the key that signs other releases", []string{spare}, nothing)
	bad("a changed file", nil, append1("install.sh"))
	bad("changed checksums", []string{public}, append1("SHA256SUMS"))
	bad("a changed signature", []string{public}, append1("SHA256SUMS.sig"))
	bad("no signature", []string{public}, func(d string) error { return os.Remove(filepath.Join(d, "SHA256SUMS.sig")) })
	bad("a lost file", nil, func(d string) error { return os.Remove(filepath.Join(d, "install.sh")) })
	bad("an added file", nil, func(d string) error { return os.WriteFile(filepath.Join(d, "more"), nil, 0o600) })
}

func TestAReleaseOfChangesThatAreNotCommittedIsRefused(t *testing.T) {
	t.Parallel()
	root, out := tinyTree(t), t.TempDir()
	put(t, filepath.Join(root, "new file"), "")
	o := release.Options{Root: root, Out: out, Version: "1.2.3", Archs: []string{runtime.GOARCH}}
	if _, err := release.Make(t.Context(), o); err == nil || !strings.Contains(err.Error(), "new file") {
		t.Errorf("made with an uncommitted file: %v", err)
	}
	o.Local = true
	dir, err := release.Make(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(dir)
	if !strings.HasPrefix(name, "1.2.3-local.g") || !strings.HasSuffix(name, ".dirty") {
		t.Errorf("a local build has the version %s", name)
	}
	if text := read(t, filepath.Join(dir, "UNSIGNED")); !strings.Contains(text, name) {
		t.Errorf("it says %q", text)
	}
	program := filepath.Join(t.TempDir(), "garrisond")
	archive := filepath.Join(dir, "garrisond-"+name+"-linux-"+runtime.GOARCH+".tar.gz")
	script := `tar -xzOf "$0" usr/bin/garrisond >"$1"; chmod +x "$1"`
	run(t, exec.CommandContext(t.Context(), "sh", "-c", script, archive, program))
	if printed := run(t, exec.CommandContext(t.Context(), program)); !strings.HasPrefix(printed, name+" ") {
		t.Errorf("the program prints %q", printed)
	}
	if left, _ := filepath.Glob(filepath.Join(out, ".*")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

func TestWrongOptionsAreRefused(t *testing.T) {
	t.Parallel()
	public, seed := newKey(t)
	spare, _ := newKey(t)
	other, _ := newKey(t)
	two := []string{public, spare}
	for want, o := range map[string]release.Options{
		`"" is not of the form`:        {},
		`"v1.2.3" is not of the form`:  {Version: "v1.2.3"},
		`"1.2" is not of the form`:     {Version: "1.2"},
		`"1.2.3+x" is not of the form`: {Version: "1.2.3+x"},
		`"386" is neither`:             {Version: "1.2.3", Archs: []string{"386"}},
		"1 release keys":               {Version: "1.2.3", Keys: two[:1]},
		"two different ones":           {Version: "1.2.3", Keys: []string{public, public}},
		"not the public half":          {Version: "1.2.3", Keys: []string{public, "x"}},
		"is not one of the release":    {Version: "1.2.3", Keys: []string{spare, other}, Seed: seed},
		"cannot be read":               {Version: "1.2.3", Keys: two, Seed: []byte("x")},
	} {
		o.Root, o.Out = t.TempDir(), filepath.Join(t.TempDir(), "out")
		if _, err := release.Make(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
		if _, err := os.Stat(o.Out); err == nil {
			t.Errorf("%q: something was written", want)
		}
	}
}
