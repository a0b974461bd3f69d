package dispatcher

import (
	"os"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

func TestTheReadmeShowsTheLifeOfATask(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	want := "```mermaid\n" + task.Life.Mermaid(task.Unknown) + "```"
	if !strings.Contains(string(data), want) {
		t.Errorf("README.md does not show the life of a task; insert this:\n%s", want)
	}
}
