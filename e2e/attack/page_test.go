package attack

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the table of the page about security")

// The page about security has a row for each attack of the book.
func TestTheSecurityPageListsTheBook(t *testing.T) {
	path := filepath.Join("..", "..", "deploy", "docs", "security.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- the book: begin -->\n", "<!-- the book: end -->\n"
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the lines %q and %q", path, begin, end)
	}
	want := before + begin + table() + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(page), want); diff != "" {
		t.Errorf("run: go test ./e2e/attack -run SecurityPage -update (-page +book):\n%s", diff)
	}
}

func table() string {
	var b strings.Builder
	b.WriteString("| attack | credentials of | tried | stopped by |\n|---|---|---|---|\n")
	for _, a := range book {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", a.name, a.as, a.tried, a.stopped)
	}
	return b.String()
}
