package fsm_test

import (
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fsm"
)

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
