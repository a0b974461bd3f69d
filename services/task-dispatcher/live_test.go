package dispatcher

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// A dispatcher that was started again has not received the step of a task yet.
func TestATaskAtAnUnknownStepIsSlowByTheTimeSinceTheDispatcherBegan(t *testing.T) {
	t.Parallel()
	at := func(seconds int64) time.Time { return time.Unix(1000+seconds, 0) }
	usual := func(*taskv1.Task, taskv1.Step) (time.Duration, bool) { return 10 * time.Second, true }
	running := &taskv1.Task{State: taskv1.State_STATE_RUNNING, AssignedAt: timestamppb.New(at(0))}
	proves := liveReport{progress: &taskv1.Progress{Step: taskv1.Step_STEP_PROVE}, since: at(60)}
	for name, c := range map[string]struct {
		report     liveReport
		began, now int64
		want       bool
	}{
		"it began long before":          {liveReport{}, -100, 31, true},
		"it has just begun":             {liveReport{}, 100, 101, false},
		"and nothing came since":        {liveReport{}, 100, 131, true},
		"the step is known":             {proves, 100, 91, true},
		"the step is known, and is new": {proves, -100, 89, false},
	} {
		l := progressOf(running, c.report, usual, at(c.began), at(c.now))
		if l.Slow != c.want {
			t.Errorf("%s: slow %v; want %v", name, l.Slow, c.want)
		}
		if c.report.progress == nil && !l.Since.AsTime().Equal(at(0)) {
			t.Errorf("%s: since %v; want its assignment", name, l.Since.AsTime())
		}
	}
}
