package release

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

const (
	module = "github.com/garrison-fleet/garrison/"
	stamp  = module + "pkg/version."
)

// program is one program and where its source is: a module of its own, and its main package there.
type program struct{ name, module string }

var programs = []program{
	{"garrisond", "deploy/allinone"},
	{"garrison", "services/operator"},
	{"executor", "services/executor"},
	{"registry", "services/registry"},
	{"image-catalog", "services/image-catalog"},
	{"task-dispatcher", "services/task-dispatcher"},
	{"access", "services/access"},
	{"gateway", "services/gateway"},
}

// binary returns the path of a built program.
func (m *maker) binary(name, arch string) string { return filepath.Join(m.stage, "bin", arch, name) }

// build builds every program. Each is built by its own module alone, so that no other module of the workspace, such as
// this one, has a say in the versions of what it links.
func (m *maker) build(ctx context.Context, arch string) error {
	for _, p := range programs {
		path, err := filepath.Abs(m.binary(p.name, arch))
		if err != nil {
			return err
		}
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-mod=readonly",
			"-ldflags", "-s -w -X "+stamp+"Version="+m.Version+" -X "+stamp+"Commit="+m.tree.commit,
			"-o", path, "./cmd/"+p.name)
		cmd.Dir = filepath.Join(m.Root, p.module)
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOENV=off", "GOFLAGS=",
			"GOEXPERIMENT=", "CGO_ENABLED=0", "GOOS=linux",
			"GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFIPS140=off")
		if _, err := output(cmd); err != nil {
			return err
		}
	}
	return nil
}

// document has the command line write its manual pages and its completions.
func (m *maker) document(ctx context.Context) error {
	arch := runtime.GOARCH
	if !slices.Contains(m.Archs, arch) {
		if err := m.build(ctx, arch); err != nil {
			return err
		}
	}
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, m.binary("garrison", arch), args...)
		cmd.Env = []string{"SOURCE_DATE_EPOCH=" + m.epoch(), "TZ=UTC", "HOME=/nonexistent"}
		return output(cmd)
	}
	if _, err := run("man", "--out", m.pages()); err != nil {
		return err
	}
	for _, shell := range []string{"bash", "fish", "zsh"} {
		text, err := run("completion", shell)
		if err == nil {
			err = m.put("completion."+shell, []byte(text))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m *maker) pages() string { return filepath.Join(m.stage, "man") }

// put writes a file of the stage.
func (m *maker) put(name string, data []byte) error {
	path := filepath.Join(m.stage, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o644)
}
