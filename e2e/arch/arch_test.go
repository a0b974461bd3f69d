// Package arch_test checks the source tree: import directions, pure packages, sizes and language.
package arch_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/garrison-fleet/garrison/"

// pkg is what `go list` says of a package.
type pkg struct {
	ImportPath                         string
	Dir, Name, Doc                     string
	GoFiles, TestGoFiles, XTestGoFiles []string
	Imports, TestImports, XTestImports []string
	Deps                               []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list",
		"-json=ImportPath,Dir,Name,Doc,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Deps", "work")
	cmd.Dir = root(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, &stderr)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		all = append(all, p)
	}
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// below reports whether path is dir or below it.
func below(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

func belowAny(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return below(path, d) })
}

// Each service is a world of its own: services share the contract, pkg and the bus.
func TestImportsGoInOneDirection(t *testing.T) {
	allowed := map[string][]string{
		"proto":    {"proto"},
		"pkg":      {"proto", "pkg"},
		"services": {"proto", "pkg"}, // and itself, below
		"deploy":   {"proto", "pkg", "services", "deploy"},
		"e2e":      {"proto", "pkg", "services", "deploy", "e2e"},
	}
	for _, p := range packages(t) {
		top, _, _ := strings.Cut(p.ImportPath, "/")
		dirs, ok := allowed[top]
		if !ok {
			t.Errorf("%s is in no folder that belongs here", p.ImportPath)
			continue
		}
		if top == "services" {
			dirs = append(slices.Clone(dirs), strings.Join(strings.SplitN(p.ImportPath, "/", 3)[:2], "/"))
		}
		for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if own, ok := strings.CutPrefix(i, module); ok && !belowAny(own, dirs...) {
				t.Errorf("%s imports %s", p.ImportPath, own)
			}
		}
	}
}

// Some things are used in some places only.
func TestOnlyTheBusTalksNATS(t *testing.T) {
	rules := []struct {
		library string
		allowed []string // where shipped code may use it
		tests   []string // where tests may, besides
	}{
		{
			"github.com/nats-io/nats.go",
			[]string{"pkg/bus", "pkg/topology", "pkg/bustest", "e2e/bench"},
			[]string{"pkg/trust", "services/access", "services/operator", "deploy/allinone", "e2e"},
		},
		{"github.com/nats-io/nats-server", []string{"pkg/bustest", "deploy/allinone", "e2e/bench"}, nil},
		{"github.com/nats-io/jwt", []string{"pkg/trust", "pkg/bustest", "deploy/allinone", "e2e/bench"}, nil},
	}
	for _, p := range packages(t) {
		for _, r := range rules {
			for _, i := range p.Imports {
				if below(i, r.library) && !belowAny(p.ImportPath, r.allowed...) {
					t.Errorf("%s imports %s", p.ImportPath, i)
				}
			}
			for _, i := range slices.Concat(p.TestImports, p.XTestImports) {
				if below(i, r.library) && !belowAny(p.ImportPath, slices.Concat(r.allowed, r.tests)...) {
					t.Errorf("the tests of %s import %s", p.ImportPath, i)
				}
			}
		}
	}
}

// The program that runs on every machine stays small.
func TestTheExecutorDoesNotLinkAServer(t *testing.T) {
	for _, p := range packages(t) {
		if !below(p.ImportPath, "services/executor/cmd") {
			continue
		}
		for _, d := range p.Deps {
			if strings.Contains(d, "nats-server") || strings.Contains(d, "cobra") || below(d, "testing") {
				t.Errorf("%s links %s", p.ImportPath, d)
			}
		}
	}
}

// The pure cores: decisions without a clock, a log, a bus or an operating system.
var cores = []string{
	"services/registry/internal",
	"services/image-catalog/internal",
	"services/task-dispatcher/internal",
	"services/access/internal",
	"services/executor/internal/change",
	"services/executor/internal/lifecycle",
	"pkg/archive",
	"pkg/ledger",
	"pkg/noun",
	"pkg/fsm",
	"pkg/fault",
}

// What serves a registry lies beside its cores.
const serving = "services/registry/internal/serve"

func TestCoresArePure(t *testing.T) {
	forbidden := []string{
		"os",
		"net",
		"log",
		"io/fs",
		"os/exec",
		"syscall",
		"context",
		"github.com/rs/zerolog",
		"github.com/nats-io",
		module + "pkg/bus",
		module + "pkg/logs",
	}
	clock := regexp.MustCompile(`\btime\.(Now|Since|Until|Sleep|After|AfterFunc|NewTimer|NewTicker|Tick)\b`)
	for _, p := range packages(t) {
		if !belowAny(p.ImportPath, cores...) || below(p.ImportPath, serving) {
			continue
		}
		for _, i := range p.Imports {
			if belowAny(i, serving) {
				t.Errorf("the core %s imports %s", p.ImportPath, i)
			}
			if i != "net/netip" && belowAny(i, forbidden...) { // addresses as values
				t.Errorf("the core %s imports %s", p.ImportPath, i)
			}
		}
		for _, f := range p.GoFiles {
			src, err := os.ReadFile(filepath.Join(p.Dir, f))
			if err != nil {
				t.Fatal(err)
			}
			if m := clock.Find(src); m != nil {
				t.Errorf("the core file %s/%s uses %s", p.ImportPath, f, m)
			}
		}
	}
}

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	bad := []string{"util", "utils", "common", "helper", "helpers", "manager", "base", "misc", "types"}
	for _, p := range packages(t) {
		if below(p.ImportPath, "proto/gen") || len(p.GoFiles) == 0 {
			continue
		}
		if p.Doc == "" {
			t.Errorf("package %s has no comment", p.ImportPath)
		}
		if slices.Contains(bad, p.Name) || slices.Contains(bad, filepath.Base(p.ImportPath)) {
			t.Errorf("package %s has a name that says nothing", p.ImportPath)
		}
	}
}

// Tests have the same bounds: a table stands beside the function that walks it.
func TestFunctionsAndFilesStayShort(t *testing.T) {
	const functionLines, fileLines = 70, 400
	for _, p := range packages(t) {
		if below(p.ImportPath, "proto/gen") {
			continue
		}
		for _, f := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			path := filepath.Join(p.Dir, f)
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			if ast.IsGenerated(file) {
				continue
			}
			if n := set.Position(file.End()).Line; n > fileLines {
				t.Errorf("%s/%s has %d lines; %d is the limit", p.ImportPath, f, n, fileLines)
			}
			for _, d := range file.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if n := set.Position(d.End()).Line - set.Position(d.Pos()).Line + 1; ok && n > functionLines {
					t.Errorf("%s/%s: %s has %d lines; %d is the limit", p.ImportPath, f, fn.Name.Name, n, functionLines)
				}
			}
		}
	}
}

func TestModulesAgree(t *testing.T) {
	dir := root(t)
	work, err := os.ReadFile(filepath.Join(dir, "go.work"))
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() != "go.mod" {
			return err
		}
		rel, err := filepath.Rel(dir, filepath.Dir(path))
		if err != nil {
			return err
		}
		if !bytes.Contains(work, []byte("./"+rel+"\n")) {
			t.Errorf("go.work does not list %s", rel)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if !bytes.Contains(text, []byte("\ngo 1.26.0\n")) {
			t.Errorf("%s/go.mod asks for another Go than go.work", rel)
		}
		for line := range strings.Lines(string(text)) {
			if from, to, ok := strings.Cut(line, "=>"); ok &&
				(!strings.Contains(from, module) || !strings.Contains(to, "../")) {
				t.Errorf("%s/go.mod replaces something that is not ours: %s", rel, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestTheTopLevelHoldsNothingElse(t *testing.T) {
	want := []string{
		"ARCHITECTURE.md",
		"CHANGELOG.md",
		"CONTRIBUTING.md",
		"LICENSE",
		"Makefile",
		"README.md",
		"SECURITY.md",
		"bin",
		"deploy",
		"docker-compose.yml",
		"e2e",
		"go.work",
		"go.work.sum",
		"pkg",
		"proto",
		"services",
	}
	entries, err := os.ReadDir(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") && !slices.Contains(want, e.Name()) {
			t.Errorf("%s does not belong at the top", e.Name())
		}
	}
}
