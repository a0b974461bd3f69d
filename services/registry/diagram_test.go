package registry

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
)

func TestTheDiagramInTheDocsIsTheTable(t *testing.T) {
	t.Parallel()
	const page = "docs/servers.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), "```mermaid\n")
	have, after, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/servers.md has no diagram")
	}
	want := server.Life.Mermaid(server.Unknown)
	if have == want {
		return
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(before+"```mermaid\n"+want+"```"+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the diagram is out of date; run the test with UPDATE=1:\n%s", cmp.Diff(have, want))
}
