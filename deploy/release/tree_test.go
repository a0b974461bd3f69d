package release_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/deploy/release"
	"github.com/garrison-fleet/garrison/pkg/seal"
)

// tinyCLI does what a release asks of the command line, and links a module of others.
const tinyCLI = `package main

import (
	"os"

	"github.com/Masterminds/semver/v3"
	"github.com/garrison-fleet/garrison/pkg/version"
)

func main() {
	switch os.Args[1] {
	case "man":
		os.Mkdir(os.Args[3], 0o755)
		os.WriteFile(os.Args[3]+"/garrison.1", []byte(os.Getenv("SOURCE_DATE_EPOCH")), 0o600)
	case "completion":
		println(semver.MustParse("1.0.0").String(), version.Version, version.Commit)
		os.Stdout.WriteString("complete " + os.Args[2])
	}
}
`

const tinyProgram = `package main

import "github.com/garrison-fleet/garrison/pkg/version"

func main() { println(version.Version, version.Commit) }
`

// tinyTree returns a source tree that is Garrison's but for its programs, which are tiny: a release of it takes
// seconds.
func tinyTree(t *testing.T) string {
	t.Helper()
	root, here := filepath.Join(t.TempDir(), "garrison"), filepath.Join("..", "..")
	for _, dir := range []string{"deploy/systemd", "deploy/release/scripts", "deploy/release/files"} {
		if err := os.CopyFS(filepath.Join(root, dir), os.DirFS(filepath.Join(here, dir))); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"LICENSE", "deploy/install.sh"} {
		put(t, filepath.Join(root, file), read(t, filepath.Join(here, file)))
	}
	put(t, filepath.Join(root, "pkg/version/version.go"), "package version\n\nvar Version, Commit string\n")
	put(t, filepath.Join(root, "pkg/go.mod"), "module github.com/garrison-fleet/garrison/pkg\n\ngo 1.26.0\n")
	for name, module := range release.Programs() {
		dir := filepath.Join(root, module)
		text, requires := tinyProgram, ""
		if name == "garrison" {
			text, requires = tinyCLI, "require github.com/Masterminds/semver/v3 v3.5.0\n"
			put(t, filepath.Join(dir, "go.sum"), lines(read(t, "go.sum"), "github.com/Masterminds/semver/v3 v3.5.0"))
		}
		put(t, filepath.Join(dir, "cmd", name, "main.go"), text)
		put(t, filepath.Join(dir, "go.mod"), fmt.Sprintf("module github.com/garrison-fleet/garrison/%s\n\n"+
			"go 1.26.0\n\n%srequire github.com/garrison-fleet/garrison/pkg v0.0.0\n\n"+
			"replace github.com/garrison-fleet/garrison/pkg => ../../pkg\n", module, requires))
	}
	git(t, root, "init", "-q")
	git(t, root, "add", ".")
	git(t, root, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-qm", "all")
	return root
}

func lines(text, prefix string) (out string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			out += line
		}
	}
	return out
}

func git(t *testing.T, root string, args ...string) {
	t.Helper()
	run(t, exec.CommandContext(t.Context(), "git", append([]string{"-C", root}, args...)...))
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, out)
	}
	return string(out)
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

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// newKey returns a key that signs releases.
func newKey(t *testing.T) (public string, seed []byte) {
	t.Helper()
	public, seed, err := seal.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return public, seed
}
