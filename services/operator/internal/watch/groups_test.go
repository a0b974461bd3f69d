package watch

import (
	"fmt"
	"testing"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
)

func TestEqualFailuresAreGrouped(t *testing.T) {
	var tasks []display.Task
	add := func(n int, state taskv1.State, reason string) {
		for range n {
			tasks = append(tasks, &taskv1.Task{
				ServerId: fmt.Sprint("n-", len(tasks)+1), State: state,
				Outcome: &taskv1.Outcome{Code: "EXITED", Reason: reason},
			})
		}
	}
	add(5, taskv1.State_STATE_UNDONE, "unknown flag -bogus")
	add(2, taskv1.State_STATE_SUCCEEDED, "")
	add(1, taskv1.State_STATE_FAILED, "no space")
	var have []string
	for _, g := range groupsOf(tasks, display.Task.GetServerId) {
		have = append(have, g.String())
	}
	want := []string{"5 × EXITED: unknown flag -bogus (n-1, n-2, n-3 and 2 more)", "1 × EXITED: no space (n-8)"}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("have %q, want %q", have, want)
	}
}
