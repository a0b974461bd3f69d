package rollout

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
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

func TestTheSlowStepsOfARolloutAreAddedToItsSlowServers(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	at := func(server string, queued time.Duration, step taskv1.Step) *taskv1.Task {
		return &taskv1.Task{
			ServerId: server, Agent: "web", State: taskv1.State_STATE_ASSIGNED,
			QueuedAt: timestamppb.New(now.Add(queued)),
			Live: &taskv1.Live{
				Step: step, Since: timestamppb.New(now.Add(-48 * time.Second)), Usual: durationpb.New(6 * time.Second),
			},
		}
	}
	r := &registryv1.GetRolloutResponse{
		Rollout: &rolloutv1.Rollout{PlannedAt: timestamppb.New(now.Add(-time.Minute))}, SlowCount: 2,
		Slow: []*registryv1.SlowServer{
			{ServerId: "1", ServerName: "db-1", Agent: "web", Step: "running", Took: durationpb.New(time.Minute)},
			{ServerId: "1", ServerName: "db-1", Agent: "log", Step: "queued"},
		},
	}
	addSlow(r, []*taskv1.Task{
		at("1", 0, taskv1.Step_STEP_FETCH), at("17", 0, taskv1.Step_STEP_PROVE), at("3", 0, 0),
		at("4", -time.Hour, taskv1.Step_STEP_PROVE),
	}, map[string]string{"17": "db-17", "3": "db-3"}, now)
	var have []string
	for _, s := range r.Slow {
		have = append(have, display.SlowText(s))
	}
	want := []string{
		"db-1: web at step fetch for 48s; the median is 6s", "db-1: log queued for 0s; the median is 0s",
		"db-17: web at step prove for 48s; the median is 6s", "db-3: web assigned for 48s; the median is 6s",
	}
	if !slices.Equal(have, want) || r.SlowCount != 4 {
		t.Errorf("%d slow: %q\nwant %q", r.SlowCount, have, want)
	}
}

func TestTheExitCodeOfARolloutSaysWhetherEachServerHasIt(t *testing.T) {
	of := func(state rolloutv1.State, servers rolloutv1.TargetState) *rolloutv1.Rollout {
		counts := map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_SUCCEEDED): 2, uint32(servers): 1}
		return &rolloutv1.Rollout{State: state, Waves: []*rolloutv1.Wave{{Servers: 3, Counts: counts}}}
	}
	for _, c := range []struct {
		state   rolloutv1.State
		servers rolloutv1.TargetState
		want    int
	}{
		{rolloutv1.State_STATE_SUCCEEDED, rolloutv1.TargetState_TARGET_STATE_GONE, 0},
		{rolloutv1.State_STATE_SUCCEEDED, rolloutv1.TargetState_TARGET_STATE_OWED, 5},
		{rolloutv1.State_STATE_SUCCEEDED, rolloutv1.TargetState_TARGET_STATE_LEFT_OUT, 5},
		{rolloutv1.State_STATE_SUCCEEDED, rolloutv1.TargetState_TARGET_STATE_BROKEN, 5},
		{rolloutv1.State_STATE_ABORTED, rolloutv1.TargetState_TARGET_STATE_PENDING, 5},
		{rolloutv1.State_STATE_HALTED, rolloutv1.TargetState_TARGET_STATE_LEFT_OUT, 6},
	} {
		if have := exitOf(of(c.state, c.servers)); have != c.want {
			t.Errorf("%s with a server %s: %d, want %d", c.state, c.servers, have, c.want)
		}
	}
}
