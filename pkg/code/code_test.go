package code_test

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
)

var update = flag.Bool("update", false, "write CODES.md")

func ExampleLookup() {
	e, ok := code.Lookup("NO_MATCH")
	fmt.Println(ok, e.By)
	fmt.Println(e.Meaning)
	fmt.Println("Try:", e.Remedy)
	old, _ := code.Lookup("NO_CHANNEL") // merged into another
	fmt.Println(old.Code)
	// Output:
	// true [registry image-catalog]
	// No image matches the agent, the version or channel, and the platform of every target.
	// Try: garrison image list AGENT
	// UNKNOWN_CHANNEL
}

func TestEveryCodeHasAMeaningARemedyAndPrograms(t *testing.T) {
	seen := map[string]bool{}
	wire := regexp.MustCompile(`^[A-Z]+(_[A-Z]+)*$`)
	for _, g := range code.Groups() {
		for _, e := range g.Entries {
			if !wire.MatchString(e.Code) || seen[e.Code] {
				t.Errorf("%s is declared twice, or is not in capitals", e.Code)
			}
			if seen[e.Code] = true; len(e.By) == 0 || !strings.HasSuffix(e.Meaning, ".") || e.Remedy == "" {
				t.Errorf("%s: by %v, means %q, remedy %q", e.Code, e.By, e.Meaning, e.Remedy)
			}
		}
	}
}

// The page is what garrison explain knows, for readers without the program.
func TestThePageOfCodesIsCurrent(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Refusal codes\n\nGenerated from package code by `go test ./pkg/code -update`. " +
		"`garrison explain CODE` prints the same.\n")
	cell := strings.NewReplacer("|", `\|`, "\n", " ")
	for _, g := range code.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| code | from | meaning | try |\n|---|---|---|---|\n", g.Subject)
		for _, e := range g.Entries {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", e.Code, strings.Join(e.By, ", "), cell.Replace(e.Meaning),
				cell.Replace(e.Remedy))
		}
	}
	if *update {
		if err := os.WriteFile("CODES.md", []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile("CODES.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(b.String(), string(page)); d != "" {
		t.Errorf("run the test with -update (-want +have):\n%s", d)
	}
}
