package rollout

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestTheOutputOfABrokenServerIsThatOfATaskOfTheRollout(t *testing.T) {
	planned := time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)
	r := &rolloutv1.Rollout{Agents: []string{"web"}, PlannedAt: timestamppb.New(planned)}
	task := func(agent string, after time.Duration, says string) *taskv1.Task {
		return &taskv1.Task{
			Agent: agent, QueuedAt: timestamppb.New(planned.Add(after)), Outcome: &taskv1.Outcome{LogTail: says},
		}
	}
	other, before := task("db", time.Minute, "of another agent"), task("web", -time.Minute, "of last week")
	if have := outputOf(r, []*taskv1.Task{other, before}); have != "" {
		t.Errorf("%q; want nothing without a task of the rollout", have)
	}
	own := task("web", time.Second, "starting\nport 80 is taken\n")
	if have := outputOf(r, []*taskv1.Task{other, own, before}); have != "port 80 is taken" {
		t.Errorf("%q; want the last line of the rollout's task", have)
	}
}

func TestAServerThatIsSlowInItsNextStepIsNamedOnce(t *testing.T) {
	w := &watcher{said: map[string]bool{}}
	for n, step := range []string{"queued", "running", "observing"} {
		w.last = &registryv1.GetRolloutResponse{Slow: []*registryv1.SlowServer{
			{ServerId: "1", Agent: "web", Step: step}, {ServerId: "2", Agent: "web", Step: "queued"},
		}}
		if have := len(w.newlySlow()); n == 0 && have != 2 || n > 0 && have != 0 {
			t.Errorf("step %s: %d servers are named", step, have)
		}
	}
}
