package watch

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
)

func TestTasksThatEndedDecideTheExitCode(t *testing.T) {
	good, bad := &taskv1.Task{State: taskv1.State_STATE_SUCCEEDED}, &taskv1.Task{State: taskv1.State_STATE_UNDONE}
	for _, c := range []struct {
		tasks []display.Task
		want  int
	}{{nil, 0}, {[]display.Task{good}, 0}, {[]display.Task{good, bad}, 5}, {[]display.Task{bad}, 1}} {
		if got := Tally(c.tasks).Code(); got != c.want {
			t.Errorf("%v: have %d, want %d", c.tasks, got, c.want)
		}
	}
}

func TestTheLastSentenceSaysWhatHappened(t *testing.T) {
	for _, c := range []struct {
		n    counts
		want string
	}{
		{counts{succeeded: 1}, "done: 1 task succeeded"},
		{counts{succeeded: 3, failed: 1, how: []string{"1 undone"}}, "done: 3 tasks succeeded, 1 failed (1 undone)"},
		{counts{failed: 4, how: []string{"4 undone"}}, "failed: 0 of 4 tasks succeeded (4 undone)"},
	} {
		if have := c.n.String(); have != c.want {
			t.Errorf("have %q, want %q", have, c.want)
		}
	}
}

func TestOnlyTheLastTryOfATaskCounts(t *testing.T) {
	first := &taskv1.Task{Id: "1", ServerId: "s", Agent: "a", Generation: 1, Attempt: 1}
	second := &taskv1.Task{Id: "2", ServerId: "s", Agent: "a", Generation: 1, Attempt: 2}
	other := &taskv1.Task{Id: "3", ServerId: "s", Agent: "b", Generation: 1, Attempt: 1}
	var ids []string
	for _, t := range lastTries([]display.Task{other, second, first}) {
		ids = append(ids, t.GetId())
	}
	if d := cmp.Diff([]string{"3", "2"}, ids); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}
