package rollouts

import (
	"fmt"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestTheShareOfTasksThatFailIsOverOneTime(t *testing.T) {
	begin := time.Unix(0, 0)
	tasks := map[string]end{}
	for n := range mostLearnt { // one a second succeeds; the next ones are not read
		tasks[fmt.Sprint("good ", n)] = end{at: begin.Add(time.Duration(n) * time.Second), succeeded: true}
	}
	for n := range mostLearnt { // one of a hundred seconds fails
		tasks[fmt.Sprint("bad ", n)] = end{at: begin.Add(time.Duration(n) * 100 * time.Second)}
	}
	l := lessonsOf(endsBefore(begin.Add(mostLearnt*time.Second), tasks, nil))
	if l.tasks != mostLearnt+20 || l.fails < 0.009 || l.fails > 0.011 {
		t.Errorf("%d tasks, %.4f of them failed; want %d and one of a hundred", l.tasks, l.fails, mostLearnt+20)
	}
}

func TestWithoutTasksADurationIsAssumedAndNoFailure(t *testing.T) {
	if l := lessonsOf(nil); l.median() != assumed || l.tasks != 0 || l.fails != 0 {
		t.Errorf("without tasks: %v", l)
	}
}

// A version that was halted, and a configuration that lacked a value, made every later forecast halt.
func TestAForecastRestsOnTheTasksThatAreLikeItsChanges(t *testing.T) {
	one, two := &imagev1.Ref{Id: "one"}, &imagev1.Ref{Id: "two"}
	install, upgrade := likeOf(nil, one, false), likeOf(one, two, false)
	restart, configure, remove := likeOf(one, one, false), likeOf(one, one, true), likeOf(one, nil, false)
	var ends []end
	add := func(n int, kind like, e end) {
		e.like = kind
		for range n {
			ends = append(ends, e)
		}
	}
	ran := end{succeeded: true, took: time.Second}
	add(30, install, ran)
	add(3, install, endOf(ledger.Fact{Body: &taskv1.Undone{}}, &taskv1.Outcome{
		Code: code.BadTemplate, FailedStep: taskv1.Step_STEP_REHEARSE,
	}))
	add(10, upgrade, endOf(ledger.Fact{Body: &taskv1.Undone{}}, &taskv1.Outcome{
		Code: code.NotReady, FailedStep: taskv1.Step_STEP_PROVE,
	}))
	add(4, configure, endOf(ledger.Fact{Body: &taskv1.Failed{}}, &taskv1.Outcome{Code: code.RehearsalFailed}))
	add(5, remove, ran)
	h := history{ends: ends, all: lessonsOf(ends)}
	for _, c := range []struct {
		name  string
		of    like
		bad   string // the image of a build that is blocked
		tasks uint32
		fails float64
	}{
		{"the same image, on a server that lacks it", install, "two", 30, 0},
		{"the same image, in place of another one", likeOf(two, one, false), "", 30, 0},
		{"the image that fails", upgrade, "two", 10, 1},
		{"an image that never came, beside a bad one", likeOf(one, &imagev1.Ref{Id: "new"}, false), "two", 30, 0},
		{"an image that never came", likeOf(one, &imagev1.Ref{Id: "new"}, false), "", 40, 0.25},
		{"a restart", restart, "", 0, 0},
		{"a removal", remove, "", 5, 0},
		{"a removal of another agent", likeOf(two, nil, false), "", 5, 0},
		{"a configuration", configure, "", 4, 1},
	} {
		l := h.like(map[like]bool{c.of: true}, map[string]bool{c.bad: true})
		if l.tasks != c.tasks || l.fails != c.fails {
			t.Errorf("%s: %d tasks, %.2f failed; want %d, %.2f", c.name, l.tasks, l.fails, c.tasks, c.fails)
		}
	}
}
