package fsm_test

import (
	"fmt"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fsm"
)

var door = fsm.Table[string, string]{
	"open":   {"closed": "shut"},
	"shut":   {"opened": "open", "broken": "ruined"},
	"ruined": {},
}

func TestOnlyWhatIsInTheTableCanHappen(t *testing.T) {
	for _, s := range door.States() {
		for _, f := range door.Facts() {
			want, can := door[s][f]
			got, ok := door.Next(s, f)
			if ok != can || (can && got != want) || (!can && got != s) {
				t.Errorf("%s after %s: %s %v, want %s %v", f, s, got, ok, want, can)
			}
		}
	}
}

func TestAnEndIsAStateWithoutMoves(t *testing.T) {
	if !door.End("ruined") || door.End("open") || door.End("unknown") {
		t.Error("want only ruined to be an end")
	}
}

func TestAStateWithoutARowIsFound(t *testing.T) {
	if err := door.Check(); err != nil {
		t.Error(err)
	}
	if err := (fsm.Table[string, string]{"a": {"x": "b"}}).Check(); err == nil {
		t.Error("b is reached but has no row, and Check says nothing")
	}
}

func TestTheDiagramIsAlwaysTheSame(t *testing.T) {
	want := `stateDiagram-v2
    [*] --> open
    open --> shut: closed
    ruined --> [*]
    shut --> ruined: broken
    shut --> open: opened
`
	if got := door.Mermaid("open"); got != want {
		t.Errorf("have:\n%s\nwant:\n%s", got, want)
	}
}

func ExampleTable() {
	life := fsm.Table[string, string]{
		"queued":  {"assigned": "running", "cancelled": "over"},
		"running": {"succeeded": "over", "failed": "over"},
		"over":    {},
	}
	fmt.Println(life.Next("queued", "assigned"))
	fmt.Println(life.Next("queued", "failed")) // cannot happen
	fmt.Println(life.End("over"))
	fmt.Print(life.Mermaid("queued"))
	// Output:
	// running true
	// queued false
	// true
	// stateDiagram-v2
	//     [*] --> queued
	//     over --> [*]
	//     queued --> running: assigned
	//     queued --> over: cancelled
	//     running --> over: failed
	//     running --> over: succeeded
}
