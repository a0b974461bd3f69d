package operator

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fault"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/services/operator/internal/cli"
	"github.com/garrison-fleet/garrison/services/operator/internal/fleet"
)

const failing = "up flaky@2.0.0 --on all --yes"

func TestAViewerSeesWhoReadsTheOutputOfAnAgentInItsPlace(t *testing.T) {
	t.Parallel()
	r, dir := startRunner(t), annsDirectory(t)
	_, _, watched := r.execute(t, dir, failing)
	id := regexp.MustCompile(`garrison task show ([0-9a-f-]+)`).FindStringSubmatch(watched)[1]
	_, shown, _ := r.execute(t, dir, "task show "+id)
	if !strings.Contains(watched, "last output: ") || !strings.Contains(shown, "panic: no") {
		t.Fatalf("an operator sees no output: %s\n%s", watched, shown)
	}
	r.viewer = true
	_, hidden, _ := r.execute(t, dir, "task show "+id)
	if strings.Contains(hidden, "panic: no") || strings.Contains(hidden, "garrison:sealed") ||
		!strings.Contains(hidden, " only the roles operator and admin read the output of agents\n") {
		t.Errorf("a viewer sees\n%s", hidden)
	}
	if _, _, said := r.execute(t, dir, failing); strings.Contains(said, "last output: ") ||
		strings.Contains(said, "garrison:sealed") || !strings.Contains(said, "undone") {
		t.Errorf("a viewer's watch prints\n%s", said)
	}
}

func TestWorkThatIsNamedTwiceIsWatchedOnce(t *testing.T) {
	t.Parallel()
	r, dir := startRunner(t), annsDirectory(t)
	_, _, said := r.execute(t, dir, failing)
	task := regexp.MustCompile(`garrison task show ([0-9a-f-]+)`).FindStringSubmatch(said)[1]
	_, _, said = r.execute(t, dir, "up beacon@2.0.0 --on all --yes --detach")
	intent := regexp.MustCompile(`intent ([0-9a-f-]{13})`).FindStringSubmatch(said)[1]
	lasted := regexp.MustCompile(`after [0-9.]+[µa-z]+`) // of the watch: it differs from run to run
	for _, id := range []string{task, intent} {
		code, data, once := r.execute(t, dir, "watch "+id)
		codeTwice, dataTwice, twice := r.execute(t, dir, "watch "+id+" "+id)
		alike := lasted.ReplaceAllString(once, "") == lasted.ReplaceAllString(twice, "")
		if once == "" || code != codeTwice || data != dataTwice || !alike {
			t.Errorf("watch %s ends with %d:\n%s\nand twice with %d:\n%s", id, code, once, codeTwice, twice)
		}
	}
}

func TestOutputsAreAskedForUntilTheFirstRefusal(t *testing.T) {
	t.Parallel()
	r := startRunner(t)
	env := cli.NewEnv(nil, nil, nil, func(name string) string {
		return map[string]string{"GARRISON_CONTEXT": annsDirectory(t) + "/ctx.json"}[name]
	})
	env.Dial = func(o bus.Options) (*bus.Conn, error) { return r.bus.Dial(t, o.Name), nil }
	for _, viewer := range []bool{false, true} {
		r.viewer, r.asked["OpenOutputs"] = viewer, 0
		var tasks []display.Task
		for n := range 45 {
			tail := "garrison:sealed:1:" + strconv.Itoa(n)
			tasks = append(tasks, &taskv1.Task{Id: "t", Outcome: &taskv1.Outcome{LogTail: tail}})
		}
		err := fleet.OpenOutputs(t.Context(), env, tasks)
		want := map[bool]int{false: 3, true: 1}[viewer]
		if r.asked["OpenOutputs"] != want || fault.Is(err, fault.Denied) != viewer {
			t.Errorf("viewer %v: asked %d times, want %d: %v", viewer, r.asked["OpenOutputs"], want, err)
		}
		for n, task := range tasks {
			if want := map[bool]string{false: strconv.Itoa(n)}[viewer]; task.Outcome.LogTail != want {
				t.Errorf("viewer %v: task %d has the output %q, want %q", viewer, n, task.Outcome.LogTail, want)
			}
		}
	}
}
