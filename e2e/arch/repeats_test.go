package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// Each row of the page of what repeats by itself has its bound in the code, and codes that there are.
func TestEachBoundOnWhatRepeatsByItselfIsInTheCode(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root(t), "deploy", "docs", "repeats.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| .* \\| `([a-z0-9/-]+)` (\\w+)( = |: )(.+) \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if lines := strings.Count(string(page), "\n| "); len(rows) != lines-1 { // one is the head
		t.Errorf("%d of %d rows name their bound", len(rows), lines-1)
	}
	for _, r := range rows {
		dir, name, is, value := r[1], r[2], r[3], r[4]
		bound := regexp.MustCompile(`\b` + name + `\s*[=:]\s*` + regexp.QuoteMeta(value) + `\b`)
		if !inPackage(t, dir, bound) {
			t.Errorf("%s has no %s%s%s", dir, name, is, value)
		}
		for _, c := range regexp.MustCompile("`([A-Z][A-Z_]+)`").FindAllStringSubmatch(r[0], -1) {
			if _, known := code.Lookup(c[1]); !known {
				t.Errorf("%s is no code", c[1])
			}
		}
	}
}

// inPackage reports whether a file of a package that is no test matches.
func inPackage(t *testing.T, dir string, what *regexp.Regexp) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, "_test.go") && what.Match(text) {
			return true
		}
	}
	return false
}
