package catalog

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/noun/image"
)

var update = flag.Bool("update", false, "write the diagram into the README")

func TestTheReadmeShowsTheLifeOfAnImage(t *testing.T) {
	t.Parallel()
	const readme, open, end = "README.md", "```mermaid\n", "```\n<!-- /life -->"
	text, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), open)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatal("the README has no place for the diagram")
	}
	want := before + open + image.Life.Mermaid(image.Unknown) + end + after
	if *update {
		if err := os.WriteFile(readme, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Fatal("the diagram is not that of the table; go test . -run Readme -update writes it")
	}
}
