package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// subject matches the beginning of a subject; "garrison.task.v1.Queued" is a message's name.
var subject = regexp.MustCompile(`\bgarrison\.(intent|ledger|desired|bell|report|beat|live|enrol|blob|chunk|` +
	`content|rollcall|api|tail|deadletter)\.([^v]|$)`)

// Package ledger builds the subjects of facts, package topology all others.
func TestSubjectsAreSpelledInTopologyAndLedgerOnly(t *testing.T) {
	for _, path := range sources(t, ".go") {
		if below(path, "pkg/topology") || below(path, "pkg/ledger") || path == "e2e/arch/subject_test.go" {
			continue
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, read(t, path), parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && subject.MatchString(strings.Trim(lit.Value, "\"`")) {
				t.Errorf("%s: %s is a subject; use a builder or a pattern of pkg/topology",
					set.Position(n.Pos()), lit.Value)
			}
			return true
		})
	}
}
