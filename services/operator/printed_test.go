package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"

	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
)

// The command lines that the product prints as the next thing to do are built all over its source: remedies of codes,
// refusals, differences, pages. So the list of them is the source itself.
func TestEveryCommandThatTheSourcePrintsIsACommandLine(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, dir := range []string{"../../services", "../../pkg", "../../deploy"} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			texts, err := textsOf(path)
			for _, text := range texts {
				for _, s := range suggested(text.value, text.whole) {
					seen++
					if err := s.refused(); err != nil {
						t.Errorf("%s: %q: %v", text.at, "garrison "+s.line, err)
					}
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 200 {
		t.Errorf("only %d commands were found", seen)
	}
}

func TestASuggestedCommandWithAWrongVerbFlagOrArgumentIsFound(t *testing.T) {
	t.Parallel()
	for text, wrong := range map[string]bool{
		"Try: garrison image show":                             true, // it takes an argument
		"garrison server list --stat":                          true,
		"to see it: garrison serve list":                       true,
		"to see it: garrison task list --state nosuch":         true,
		"garrison task list --state " + unknownWord + ", or b": false,
		"garrison task list --limit 0":                         true,
		"garrison undo INTENT":                                 false,
		"it lasts until garrison unhold":                       false, // a sentence names the command
		"it lasts until garrison unholds":                      true,
		"garrison image build --help lists the variables":      false,
	} {
		found := false
		for _, s := range suggested(text, false) {
			found = found || s.refused() != nil
		}
		if found != wrong {
			t.Errorf("%q is found: %t", text, found)
		}
	}
}

// located is a text of the source, and whether it is the whole of what a person is to run.
type located struct {
	at, value string
	whole     bool
}

// unknownWord stands in a text for what is known only when the program runs.
const unknownWord = "1a2b3c4d"

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
				text = strings.ReplaceAll(verb.ReplaceAllString(text, unknownWord), "%%", "%")
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
	return unknownWord, false
}

// endsWord finds a letter at the end.
var endsWord = regexp.MustCompile(`[a-z]$`)

// command finds a command of the CLI in a text: what leads to it, and its words.
var command = regexp.MustCompile(`(^|: |\x60|; |\(|or |then |see |until |sudo |\. |, )garrison ([a-z][^;:)\x60…\n]*)`)

// sentence ends a command that stands in a sentence.
var sentence = regexp.MustCompile(`(, |,$|\. |\.$| — | \[| on (the|those) | (or|and|to|then|makes|shows|brings|where|` +
	`when|is|lists|has|names|explains|prints|lets|for|with|as|that|does|ends|sets|takes|keeps)( |$)).*`)

// domains are texts that are signed, and no commands.
var domains = regexp.MustCompile(`^[a-z]+ (v1|nonce|value|keeps)$`)

// suggestion is a command line without its first word. A whole one can be run as it is, once its words are known.
type suggestion struct {
	line  string
	whole bool
}

// suggested returns the command lines in a text, which is whole itself or not.
func suggested(text string, whole bool) (all []suggestion) {
	for rest := text; ; {
		at := command.FindStringSubmatchIndex(rest)
		if at == nil {
			return all
		}
		line := rest[at[4]:at[5]]
		cut := strings.TrimRight(sentence.ReplaceAllString(line, ""), " .")
		if !domains.MatchString(strings.TrimSpace(line)) {
			lead, before := rest[at[2]:at[3]], rest[:at[2]]
			leads := lead == ": " && !strings.HasSuffix(before, "Nearest") || whole && lead == ""
			all = append(all, suggestion{cut, leads})
		}
		rest = rest[at[4]:]
	}
}

// placeholder is a word that a person or the program replaces.
var placeholder = regexp.MustCompile(`\b[A-Z]+\b|` + unknownWord)

// refused returns why a command line cannot be run. A word that is not known yet may be any.
func (s suggestion) refused() error {
	words, err := split(s.line)
	if err != nil {
		return err
	}
	root := newRoot(cli.NewEnv(nil, nil, nil, func(string) string { return "" }))
	c, rest, err := root.Find(words)
	if err != nil || slices.Contains(rest, "--help") {
		return err
	}
	if !c.Runnable() || c.HasSubCommands() && !strings.Contains(c.Use, " ") && len(rest) > 0 {
		return fmt.Errorf("%s is no command to run", c.CommandPath())
	}
	args, err := withoutFlags(c, rest)
	if err != nil || !s.whole && len(args) == 0 {
		return err
	}
	var known []string // the others may be flags with their values
	for i := range args {
		if args[i] != unknownWord {
			known = append(known, args[i])
		}
		args[i] = placeholder.ReplaceAllString(args[i], unknownWord)
	}
	if err = c.ValidateArgs(args); err != nil && c.ValidateArgs(known) == nil {
		err = nil
	}
	return errors.Join(err, c.ValidateRequiredFlags(), c.ValidateFlagGroups())
}

// withoutFlags reads the flags of a command line and returns the other words.
func withoutFlags(c *cobra.Command, words []string) (args []string, err error) {
	c.InitDefaultHelpFlag()
	for len(words) > 0 {
		word := words[0]
		words = words[1:]
		name, value, has := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if !strings.HasPrefix(word, "-") || word == "-" {
			args = append(args, word)
			continue
		}
		flag := c.Flags().Lookup(name)
		if flag == nil {
			flag = c.InheritedFlags().Lookup(name)
		}
		if len(word) == 2 {
			flag = c.Flags().ShorthandLookup(name)
		}
		if flag == nil {
			return nil, fmt.Errorf("%s has no flag %s", c.CommandPath(), word)
		}
		if !has && flag.NoOptDefVal != "" {
			flag.Changed = true
			continue
		}
		if !has {
			if len(words) == 0 {
				return nil, fmt.Errorf("%s has no value", word)
			}
			value, words = words[0], words[1:]
		}
		if err := c.Flags().Set(flag.Name, value); err != nil && !placeholder.MatchString(value) {
			return nil, fmt.Errorf("%s: %w", word, err)
		}
	}
	return args, nil
}

// cells divides a line of a table.
var cells = regexp.MustCompile(`  +`)

// printed returns the commands that an output offers, whole ones only: the cells of tables and what follows a colon.
func printed(said string) (all []suggestion) {
	for line := range strings.Lines(said) {
		for n, cell := range cells.Split(strings.TrimSpace(line), -1) {
			for _, s := range suggested(cell, n > 0) {
				if s.whole {
					all = append(all, s)
				}
			}
		}
	}
	return all
}

// runWhatWasPrinted runs each command that a command line printed, as a dry run where it changes something: none may be
// refused as a command line, or be the one that printed it. Pages of help have commands of other sites.
func runWhatWasPrinted(ts *testscript.TestScript, args []string, said string) {
	if slices.Contains([]string{"help", "man", "__complete"}, args[0]) || slices.Contains(args, "--help") ||
		args[0] == "explain" && (len(args) == 1 || strings.HasPrefix(args[1], "-")) {
		return
	}
	for _, s := range printed(said) {
		if err := s.refused(); err != nil {
			ts.Fatalf("garrison %s printed garrison %s: %v", args, s.line, err)
		}
		words, err := split(s.line)
		ts.Check(err)
		if slices.Equal(words, args) {
			ts.Fatalf("garrison %s leads to itself", args)
		}
		ran := ts.Value("ran").(map[string]bool)
		if ran[s.line] || placeholder.MatchString(s.line) || staysHere.MatchString(s.line) {
			continue
		}
		ran[s.line] = true
		root := newRoot(cli.NewEnv(nil, nil, nil, func(string) string { return "" }))
		if c, _, _ := root.Find(words); c.Flags().Lookup("dry-run") != nil && words[0] != "check" {
			words = append(words, "--dry-run")
		}
		var errs bytes.Buffer
		if run(context.Background(), newSession(ts, io.Discard, &errs), words) == cli.ExitUsage {
			ts.Fatalf("garrison %s printed garrison %s: %s", args, s.line, &errs)
		}
	}
}

// staysHere finds commands that wait for what happens, or write files.
var staysHere = regexp.MustCompile(`^(rollout )?watch |^image (key|build) |^context (add|use|rm) `)
