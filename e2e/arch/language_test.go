package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// sources returns the paths of the tracked, hand-written files with one of the extensions, relative to the root.
func sources(t *testing.T, extensions ...string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", "ls-files", "-z")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("git ls-files: %v", err)
	}
	var files []string
	for path := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		if below(path, "proto/gen") || path == "pkg/code/codes.go" || strings.Contains(path, "/testdata/format0/") {
			continue
		}
		for _, e := range extensions {
			if strings.HasSuffix(path, e) {
				files = append(files, path)
			}
		}
	}
	if len(files) == 0 {
		t.Fatalf("no files end in %v", extensions)
	}
	return files
}

// read returns a file's text; a file that git tracks and that was deleted since is empty.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), path))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}

// columns returns the width of a line in columns; a tab counts as four.
func columns(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

func TestLinesAreAtMost120Columns(t *testing.T) {
	const limit = 120
	for _, path := range sources(t, ".go", ".md", ".proto", ".sh", ".yml", ".yaml") {
		n := 0
		for line := range strings.Lines(read(t, path)) {
			n++
			line = strings.TrimRight(line, "\n")
			if strings.HasSuffix(path, ".md") && strings.HasPrefix(line, "|") {
				continue // a row of a table cannot be wrapped
			}
			if w := columns(line); w > limit {
				t.Errorf("%s:%d: %d columns; the limit is %d", path, n, w, limit)
			}
		}
	}
}

// discouraged are phrases for which CONTRIBUTING.md has plain English.
var discouraged = regexp.MustCompile(`(?i)\b(gives|says whether|whoever|nobody|told|is none|may be said|any more)\b`)

// prose matches what a line of Go holds for people: a comment or a string literal.
var prose = regexp.MustCompile("//.*|\"[^\"]*\"|`[^`]*`")

func TestTextsAvoidDiscouragedPhrases(t *testing.T) {
	for _, path := range sources(t, ".go", ".md", ".proto", ".txtar") {
		if path == "CONTRIBUTING.md" || path == "e2e/arch/language_test.go" {
			continue // they name the phrases
		}
		n := 0
		for line := range strings.Lines(read(t, path)) {
			n++
			text := line
			if strings.HasSuffix(path, ".go") {
				text = strings.Join(prose.FindAllString(line, -1), " ")
			}
			if m := discouraged.FindString(text); m != "" {
				t.Errorf("%s:%d: reword %q: %s", path, n, m, strings.TrimSpace(line))
			}
		}
	}
}

// choice matches the hint of a refusal that leaves a choice, also one that continues on the next line.
var choice = regexp.MustCompile(`(?:Try: |[Tt]ry\("|Try: +"|Try = ")[^"\n]*(?:" \+\n\t+"[^"\n]*)*, or `)

func TestAHintIsOneNextStep(t *testing.T) {
	seen := 0
	for _, path := range sources(t, ".go") {
		text := read(t, path)
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		seen += strings.Count(text, "Try")
		for _, hint := range choice.FindAllString(text, -1) {
			t.Errorf("%s: %q leaves a choice", path, hint)
		}
	}
	if seen < 100 {
		t.Errorf("only %d hints were found", seen)
	}
}

func TestExportedNamesAreDocumented(t *testing.T) {
	for _, path := range sources(t, ".go") {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "/testdata/") {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, read(t, path), parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s: exported %s has no doc comment", set.Position(d.Pos()), name)
			}
		}
	}
}

// undocumented returns the exported names that a declaration leaves without a comment. Methods of
// well-known interfaces need none.
func undocumented(d ast.Decl) []string {
	var names []string
	switch d := d.(type) {
	case *ast.FuncDecl:
		wellKnown := map[string]bool{"Error": true, "String": true, "Unwrap": true}
		if d.Doc == nil && d.Name.IsExported() && exportedReceiver(d) && !wellKnown[d.Name.Name] {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if d.Doc == nil && s.Doc == nil && s.Name.IsExported() {
					names = append(names, s.Name.Name)
				}
			case *ast.ValueSpec:
				if d.Doc == nil && s.Doc == nil && s.Comment == nil && s.Names[0].IsExported() {
					names = append(names, s.Names[0].Name)
				}
			}
		}
	}
	return names
}

// exportedReceiver reports whether a function has no receiver or one of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	exported := false
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && !exported {
			exported = id.IsExported()
			return false
		}
		return true
	})
	return exported
}
