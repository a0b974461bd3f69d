package testlog_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/testlog"
)

// read runs go test on a module of one package with this test file, and reads what it prints.
func read(t *testing.T, tests string) *testlog.Log {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module x\n\ngo 1.26\n", "x.go": "package x\n", "x_test.go": "package x\n\n" + tests,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", "test", "-json", "-vet=off", "-timeout", "2s", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	out, _ := cmd.Output() // most of these tests fail
	log := testlog.New(t.TempDir(), func(*testlog.Package) {})
	if err := log.Read(strings.NewReader(string(out))); err != nil {
		t.Fatal(err)
	}
	return log
}

func TestEachKindOfFailureIsNamedWithItsReason(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tests, failed, why string
	}{
		"an assertion": {
			`import "testing"; func TestA(t *testing.T) { t.Log("before"); t.Error("one is 2, want 1") }`,
			"TestA", "x_test.go:3: one is 2, want 1",
		},
		"an assertion before the logs of a clean-up": {
			`import ("fmt"; "testing"); func TestA(t *testing.T) {
				t.Cleanup(func() { fmt.Fprintln(t.Output(), "a.log:\n{}") })
				t.Log("before"); t.Fatal("one is 2") }`,
			"TestA", "x_test.go:5: one is 2",
		},
		"a subtest": {
			`import "testing"; func TestA(t *testing.T) { t.Run("b", func(t *testing.T) { t.Fatal("no b") }) }`,
			"TestA/b", "no b",
		},
		"a panic": {
			`import "testing"; func TestA(t *testing.T) { panic("nil thing") }`,
			"TestA", "panic: nil thing",
		},
		"a test that hangs": {
			`import "testing"; func TestA(t *testing.T) {}; func TestB(t *testing.T) { select {} }`,
			"TestB", "panic: test timed out after 2s",
		},
		"a program that exits": {
			`import ("os"; "testing"); func TestA(t *testing.T) { os.Exit(3) }`,
			"TestA", "it did not end",
		},
		"a test main that fails": {
			`import ("fmt"; "os"; "testing"); func TestMain(*testing.M) { fmt.Println("no bus"); os.Exit(1) }`,
			"", "no bus",
		},
		"what does not compile": {
			`import "testing"; func TestA(t *testing.T) { t.Errof("x") }`,
			"", "t.Errof undefined",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failures := read(t, c.tests).Failures()
			if len(failures) == 0 {
				t.Fatal("no failure")
			}
			f := failures[0]
			if why := strings.Join(f.Why, "\n"); f.Test != c.failed || !strings.Contains(why, c.why) {
				t.Errorf("test %q failed with\n%s\nwant test %q with %q", f.Test, why, c.failed, c.why)
			}
			whole, err := os.ReadFile(f.File)
			if err != nil || !strings.Contains(string(whole), strings.TrimSpace(c.why)) && c.why != "it did not end" {
				t.Errorf("the file has %q, %v", whole, err)
			}
		})
	}
}

func TestAPackageThatPassesLeavesNoFile(t *testing.T) {
	t.Parallel()
	log := read(t, `import "testing"; func TestA(t *testing.T) {}; func TestB(t *testing.T) { t.Skip() }`)
	p := log.Packages()[0]
	if _, err := os.Stat(p.File); len(log.Failures()) > 0 || p.Passed != 1 || p.Skipped != 1 || !os.IsNotExist(err) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestWhatWasCutOffIsAFailure(t *testing.T) {
	t.Parallel()
	log := testlog.New(t.TempDir(), func(*testlog.Package) {})
	if err := log.Read(strings.NewReader(`{"Action":"run","Package":"x","Test":"TestA"}` + "\n")); err != nil {
		t.Fatal(err)
	}
	if f := log.Failures(); len(f) != 1 || f[0].Test != "TestA" {
		t.Errorf("failures: %v", f)
	}
}
