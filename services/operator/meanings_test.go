package operator

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var codeLike = regexp.MustCompile(`^[A-Z][A-Z]+(_[A-Z]+)*$`)

// Codes are found where they are written: in the source of whatever may refuse, and in the executor's README.
func TestEveryCodeHasWordsAndSomethingToTry(t *testing.T) {
	codes := codesInReadme(t)
	if len(codes) < 50 {
		t.Errorf("the executor's README names %d codes", len(codes))
	}
	for _, dir := range []string{"../executor", "../registry", "../image-catalog", "../task-dispatcher", ".", "../../pkg"} {
		maps.Copy(codes, codesIn(t, dir))
	}
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		if m := meanings[code]; m.what == "" || m.try == "" {
			t.Errorf("%s, in %s: it means %q and says to try %q", code, codes[code], m.what, m.try)
		}
	}
	for code, m := range meanings {
		if codes[code] == "" && m.try == "" {
			t.Errorf("%s: nothing to try", code)
		}
	}
}

// codesInReadme gives the codes that the executor says it refuses, quarantines and rests with.
func codesInReadme(t *testing.T) map[string]string {
	data, err := os.ReadFile("../executor/README.md")
	if err != nil {
		t.Fatal(err)
	}
	codes := map[string]string{}
	for _, m := range regexp.MustCompile("`([A-Z][A-Z_]+)`").FindAllStringSubmatch(string(data), -1) {
		if !strings.HasPrefix(m[1], "LISTEN_") && !strings.HasPrefix(m[1], "GARRISON_") {
			codes[m[1]] = "README.md"
		}
	}
	return codes
}

// codesIn gives the codes that the code under a directory can refuse with.
func codesIn(t *testing.T, dir string) map[string]string {
	codes := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == "testdata" {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, e := range codeOperands(n) {
				if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
					if s, err := strconv.Unquote(lit.Value); err == nil && codeLike.MatchString(s) {
						codes[s] = path
					}
				}
			}
			return true
		})
		return nil
	})
	if err != nil || len(codes) == 0 {
		t.Fatalf("%s has %d codes: %v", dir, len(codes), err)
	}
	return codes
}

var refusing = regexp.MustCompile(`(?i)refuse|invalid|unknown|notfound`)

// codeOperands gives the expressions of a node that are codes, where they are literals:
// constants and fields named so, and what is given to a function that refuses.
func codeOperands(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.ValueSpec:
		if strings.HasPrefix(strings.ToLower(n.Names[0].Name), "code") {
			return n.Values
		}
	case *ast.KeyValueExpr:
		if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Code" {
			return []ast.Expr{n.Value}
		}
	case *ast.CallExpr:
		name := ""
		switch f := n.Fun.(type) {
		case *ast.Ident:
			name = f.Name
		case *ast.SelectorExpr:
			name = f.Sel.Name
		}
		if refusing.MatchString(name) {
			return n.Args
		}
	}
	return nil
}
