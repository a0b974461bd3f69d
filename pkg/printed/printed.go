// Package printed finds the command lines that the product prints as the next thing to do. It is for tests.
//
// Such lines are built all over the source: remedies of codes, refusals, differences, pages. So the list of them is the
// source itself.
package printed

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// InSource calls check with each command line of a program in the texts of the Go files below directories, and where it
// stands. It returns their number.
func InSource(program string, check func(at string, c Command), dirs ...string) (n int, err error) {
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			texts, err := textsOf(path)
			for _, text := range texts {
				for _, c := range Commands(program, text.value, text.whole) {
					n++
					check(text.at, c)
				}
			}
			return err
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// located is a text of the source, and whether it is the whole of what a person is to run.
type located struct {
	at, value string
	whole     bool
}

// Unknown stands in a text for what is known only when the program runs.
const Unknown = "1a2b3c4d"

// verb is what a format replaces.
var verb = regexp.MustCompile(`%(\[\d\])?[sqdv]`)

// textsOf returns the texts of a file, joined as its expressions join them, without the examples of commands.
func textsOf(path string) (out []located, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	whole := map[ast.Node]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.KeyValueExpr:
			key, _ := n.Key.(*ast.Ident)
			if key != nil && key.Name == "Example" { // another test has them
				return false
			}
			whole[n.Value] = key != nil && slices.Contains([]string{"Try", "Cure", "Next"}, key.Name)
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Try" {
				whole[n.Args[0]] = true
			}
		case *ast.ImportSpec:
			return false
		case *ast.BinaryExpr, *ast.BasicLit:
			if text, ok := joined(n.(ast.Expr)); ok {
				text = strings.ReplaceAll(verb.ReplaceAllString(text, Unknown), "%%", "%")
				out = append(out, located{set.Position(n.Pos()).String(), text, whole[n]})
				return false
			}
		}
		return true
	})
	return out, nil
}

// joined returns the text of an expression that joins texts; ok is false when it has none.
func joined(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if strings.HasPrefix(e.Value, "`") {
			text = strings.ReplaceAll(text, ": garrison", " garrison") // a page of help, in sentences
		}
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, one := joined(e.X)
		right, two := joined(e.Y)
		if !two && endsWord.MatchString(left) {
			left += " " // what follows begins with a space, or is empty
		}
		return left + right, e.Op == token.ADD && (one || two)
	}
	return Unknown, false
}

// endsWord finds a letter at the end.
var endsWord = regexp.MustCompile(`[a-z]$`)

// command finds a command of a program in a text: what leads to it, and its words.
func command(program string) *regexp.Regexp {
	const leads = `(^|: |\x60|; |\(|or |then |see |until |sudo |\. |, |here |there )`
	return regexp.MustCompile(leads + program + ` ([a-z][^;:)\x60…\n]*)`)
}

// sentence ends a command that stands in a sentence.
var sentence = regexp.MustCompile(`(, |,$|\. |\.$| — | \[| on (the|those|that) | (or|there|and|to|then|makes|shows|` +
	`brings|where|when|is|lists|has|names|explains|prints|lets|for|with|as|that|does|ends|sets|takes|keeps)` +
	`( |,|$)).*`)

// domains are texts that are signed, and no commands.
var domains = regexp.MustCompile(`^[a-z]+ (v1|nonce|value|keeps)$`)

// Command is a command line without its first word. A whole one can be run as it is, once its words are known.
type Command struct {
	Line  string
	Whole bool
}

// Commands returns the command lines of a program in a text, which is whole itself or not.
func Commands(program, text string, whole bool) (all []Command) {
	find := command(program)
	for rest := text; ; {
		at := find.FindStringSubmatchIndex(rest)
		if at == nil {
			return all
		}
		line := rest[at[4]:at[5]]
		cut := strings.TrimRight(sentence.ReplaceAllString(line, ""), " .")
		if !domains.MatchString(strings.TrimSpace(line)) {
			lead, before := rest[at[2]:at[3]], rest[:at[2]]
			leads := lead == ": " && !strings.HasSuffix(before, "Nearest") || whole && lead == ""
			all = append(all, Command{cut, leads})
		}
		rest = rest[at[4]:]
	}
}

// cells divides a line of a table.
var cells = regexp.MustCompile(`  +`)

// InOutput returns the command lines of a program that an output offers, whole ones only: the cells of tables and what
// follows a colon.
func InOutput(program, output string) (all []Command) {
	for line := range strings.Lines(output) {
		for n, cell := range cells.Split(strings.TrimSpace(line), -1) {
			for _, c := range Commands(program, cell, n > 0) {
				if c.Whole {
					all = append(all, c)
				}
			}
		}
	}
	return all
}

// Placeholder finds a word that a person or the program replaces.
var Placeholder = regexp.MustCompile(`\b[A-Z]+(-[A-Z]+)*\b|` + Unknown)
