package arch_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	continued   = regexp.MustCompile(`\\\n\s*`)
	selects     = regexp.MustCompile(`-run '([A-Za-z|]+)'`)
	directories = regexp.MustCompile(`\./\S+`)
	braces      = regexp.MustCompile(`\{(\S+)\}`)
	testNames   = regexp.MustCompile(`(?m)^func (Test\w+)`)
	changesDir  = regexp.MustCompile(`cd (\S+) &&`)
)

// A test that moves to another package would otherwise be run by no target, and the target would still pass.
func TestEachPackageThatATargetTestsHasATestThatItSelects(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	looked := 0
	for line := range strings.Lines(continued.ReplaceAllString(string(text), "")) {
		selected := selects.FindStringSubmatch(line)
		if selected == nil || !strings.Contains(line, "go test") {
			continue
		}
		dir := root(t)
		if cd := changesDir.FindStringSubmatch(line); cd != nil {
			dir = filepath.Join(dir, cd[1])
		}
		for _, named := range directories.FindAllString(line, -1) {
			for _, p := range expand(named) {
				looked++
				if !hasTest(t, filepath.Join(dir, p), regexp.MustCompile(selected[1])) {
					t.Errorf("%s has no test %s, which the Makefile runs there", p, selected[1])
				}
			}
		}
	}
	if looked < 10 {
		t.Errorf("only %d packages are named", looked)
	}
}

// expand returns the words that a word with one pair of braces stands for.
func expand(word string) (out []string) {
	in := braces.FindStringSubmatch(word)
	if in == nil {
		return []string{word}
	}
	for alternative := range strings.SplitSeq(in[1], ",") {
		out = append(out, strings.Replace(word, in[0], alternative, 1))
	}
	return out
}

// hasTest reports whether a package has a test whose name matches.
func hasTest(t *testing.T, dir string, name *regexp.Regexp) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range testNames.FindAllStringSubmatch(string(text), -1) {
			if name.MatchString(test[1]) {
				return true
			}
		}
	}
	return false
}
