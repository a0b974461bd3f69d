package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// parsed calls visit with each non-test Go file outside pkg/code and with its path.
func parsed(t *testing.T, visit func(path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	for _, path := range sources(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") || below(path, "pkg/code") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, read(t, path), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		visit(path, set, file)
	}
}

// text returns the value of a string literal, or "".
func text(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}

// columnMakers are the functions that make a column of a table from its title.
var columnMakers = []string{"Col", "Wide", "Since"}

func TestRefusalCodesAreSpelledInPkgCodeOnly(t *testing.T) {
	parsed(t, func(_ string, set *token.FileSet, file *ast.File) {
		titles := map[ast.Expr]bool{} // of columns, which may read like a code
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.KeyValueExpr:
				key, _ := n.Key.(*ast.Ident)
				if key != nil && strings.EqualFold(key.Name, "title") {
					titles[n.Value] = true
				}
				if key != nil && key.Name == "Code" && text(n.Value) != "" {
					t.Errorf("%s: the code %q is a literal; use a constant of pkg/code",
						set.Position(n.Pos()), text(n.Value))
				}
			case *ast.CallExpr:
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && slices.Contains(columnMakers, f.Sel.Name) {
					titles[n.Args[0]] = true
				}
			case *ast.BasicLit:
				if _, ok := code.Lookup(text(n)); ok && !titles[n] && text(n) == strings.ToUpper(text(n)) {
					t.Errorf("%s: %s is a refusal code; use the constant of pkg/code", set.Position(n.Pos()), n.Value)
				}
			}
			return true
		})
	})
}

// programs are the folders of the programs that refuse.
var programs = map[string]string{
	"services/registry": "registry", "services/image-catalog": "image-catalog",
	"services/task-dispatcher": "task-dispatcher", "services/access": "access",
	"services/executor": "executor", "services/operator": "garrison", "deploy/allinone": "garrisond",
}

func TestEveryCodeIsUsedByTheProgramsThatItNames(t *testing.T) {
	constants := constantsIn(t, "pkg/code/codes.go")
	users := map[string][]string{} // by code: programs, and "pkg" for what all of them may link
	parsed(t, func(path string, _ *token.FileSet, file *ast.File) {
		user := "pkg"
		for dir, program := range programs {
			if below(path, dir) {
				user = program
			}
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "code" && constants[s.Sel.Name] != "" {
				users[constants[s.Sel.Name]] = append(users[constants[s.Sel.Name]], user)
			}
			return true
		})
	})
	// The CLI compares many codes that others return, and these programs compare some.
	compares := map[string][]string{"executor": {code.UsedKey}}
	for _, e := range code.All() {
		used := users[e.Code]
		if len(used) == 0 {
			t.Errorf("%s is declared and never used", e.Code)
		}
		for _, program := range e.By {
			if !slices.Contains(used, program) && !slices.Contains(used, "pkg") {
				t.Errorf("%s is not used by %s, which its entry names", e.Code, program)
			}
		}
		for _, user := range used {
			only := user == "pkg" || user == "garrison" || slices.Contains(compares[user], e.Code)
			if !only && !slices.Contains(e.By, user) {
				t.Errorf("%s is used by %s, which its entry does not name", e.Code, user)
			}
		}
	}
}

func TestNoRefusalOfAnImageIsRetried(t *testing.T) {
	constants := constantsIn(t, "pkg/code/codes.go")
	seen := 0
	parsed(t, func(path string, _ *token.FileSet, file *ast.File) {
		if !below(path, "pkg/manifest") && !strings.HasSuffix(path, "services/executor/internal/steps/needs.go") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := s.X.(*ast.Ident); !ok || x.Name != "code" || constants[s.Sel.Name] == "" {
				return true
			}
			if seen++; code.RetryHelps(constants[s.Sel.Name]) {
				t.Errorf("%s refuses with %s, which asking again does not cure", path, s.Sel.Name)
			}
			return true
		})
	})
	if seen == 0 {
		t.Error("no refusal was found")
	}
}

// A hint of two commands leaves the choice to a reader who knows neither. What else is possible stands in the message.
func TestAHintNamesOneCommand(t *testing.T) {
	const choice = "; or "
	for _, e := range code.All() {
		if strings.Contains(e.Remedy, choice) {
			t.Errorf("%s: Try: %s", e.Code, e.Remedy)
		}
	}
	parsed(t, func(_ string, set *token.FileSet, file *ast.File) {
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && strings.Contains(text(lit), choice) {
				t.Errorf("%s: %s offers a choice", set.Position(n.Pos()), lit.Value)
			}
			return true
		})
	})
}

// constantsIn returns the string constants of a file by name.
func constantsIn(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, read(t, path), parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, s := range g.Specs {
				if v := s.(*ast.ValueSpec); len(v.Values) == 1 && v.Names[0].IsExported() {
					out[v.Names[0].Name] = text(v.Values[0])
				}
			}
		}
	}
	return out
}

// Pages name codes in backquotes. Other words in capitals are variables and the like.
func TestPagesNameDeclaredCodesOnly(t *testing.T) {
	other := regexp.MustCompile(`^((GARRISON|LISTEN|MAX|CAP|SIG|XDG|NOTIFY|CGO|CLICOLOR)_|NO_COLOR$)`)
	for _, path := range sources(t, ".md") {
		for _, m := range regexp.MustCompile("`([A-Z]+(?:_[A-Z]+)+)`").FindAllStringSubmatch(read(t, path), -1) {
			if e, ok := code.Lookup(m[1]); !other.MatchString(m[1]) && (!ok || e.Code != m[1]) {
				t.Errorf("%s: %s is not a declared code", path, m[1])
			}
		}
	}
}
