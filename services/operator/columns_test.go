package operator

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/work"
)

// Filters compare what is a number as a number: in jq, every string is greater than every number.
func TestEveryColumnOfCountsHasNumbers(t *testing.T) {
	t.Parallel()
	var files []*ast.File
	fset := token.NewFileSet()
	for _, dir := range []string{"internal", "../../pkg/display"} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(fset, path, nil, 0)
			files = append(files, f)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	count := map[string]bool{"Count": true}
	counting := map[string]bool{"Count": true, "Sprint": true} // functions that format a number alone
	for _, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && returnsCount(fn.Body, count) {
				counting[fn.Name.Name] = true
			}
		}
	}
	columns := 0
	for _, f := range files {
		numeric := map[ast.Node]bool{}
		ast.Inspect(f, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == "Numeric" {
				numeric[s.X] = true
			}
			value := columnValue(n)
			if value == nil || !returnsCount(value.Body, counting) {
				return true
			}
			columns++
			if !numeric[n] {
				t.Errorf("%s: a column of counts is not Numeric", fset.Position(n.Pos()))
			}
			return true
		})
	}
	if columns < 25 {
		t.Errorf("only %d columns of counts are found", columns)
	}
}

// columnValue returns the function of a column's text, if a node makes a column.
func columnValue(n ast.Node) *ast.FuncLit {
	switch n := n.(type) {
	case *ast.CallExpr:
		if name := nameOf(n.Fun); (name == "Col" || name == "Wide") && len(n.Args) == 2 {
			value, _ := n.Args[1].(*ast.FuncLit)
			return value
		}
	case *ast.CompositeLit:
		var value *ast.FuncLit
		for _, e := range n.Elts {
			kv, ok := e.(*ast.KeyValueExpr)
			if !ok {
				return nil
			}
			switch key, _ := kv.Key.(*ast.Ident); {
			case key == nil || key.Name == "Number":
				return nil
			case key.Name == "Value":
				value, _ = kv.Value.(*ast.FuncLit)
			}
		}
		return value
	}
	return nil
}

// returnsCount reports whether a function does nothing but return what one of the functions formats.
func returnsCount(body *ast.BlockStmt, counting map[string]bool) bool {
	if len(body.List) != 1 {
		return false
	}
	back, ok := body.List[0].(*ast.ReturnStmt)
	if !ok || len(back.Results) != 1 {
		return false
	}
	call, ok := back.Results[0].(*ast.CallExpr)
	return ok && len(call.Args) > 0 && counting[nameOf(call.Fun)]
}

func nameOf(fun ast.Expr) string {
	switch f := fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

func TestAReinstallOfManyServersIsRefusedUnlessItSaysAtOnce(t *testing.T) {
	t.Parallel()
	var names []string
	for n := range work.MostAtOnce + 1 {
		names = append(names, fmt.Sprint("web-", n))
	}
	for name, c := range map[string]struct {
		args    []string
		refused bool
	}{
		"too many":          {names, true},
		"too many, dry run": {append(slices.Clone(names), "--dry-run"), true},
		"at once":           {append(slices.Clone(names), "--at-once"), false},
		"fewer":             {names[1:], false},
	} {
		var said strings.Builder
		s := cli.NewEnv(strings.NewReader(""), &said, &said, func(string) string { return "" })
		line := append([]string{"server", "reinstall"}, c.args...)
		if have := run(t.Context(), s, line); have == cli.ExitOK {
			t.Errorf("%s: it succeeds without a bus", name)
		}
		const why = "the command would empty 101 servers; 100 are allowed without --at-once"
		if have := said.String(); strings.Contains(have, why) != c.refused {
			t.Errorf("%s: %q; want it refused: %v", name, have, c.refused)
		}
	}
}
