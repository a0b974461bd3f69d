package instance

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// A list and the end of a task are read by two services, so either may be recorded first.
func TestOfAListAndTheEndOfATaskTheLaterReportHolds(t *testing.T) {
	const number = 5
	made := time.Unix(100, 0)
	end := &taskv1.Task{
		Id: "t", InstanceId: "i", Generation: 1, State: taskv1.State_STATE_SUCCEEDED, To: one,
		Outcome: &taskv1.Outcome{Shown: &taskv1.Shown{Report: number, At: timestamppb.New(made)}},
	}
	for name, c := range map[string]struct {
		number uint64
		at     time.Time
		want   instancev1.Health
	}{
		"a list before":               {number - 1, made.Add(-time.Minute), good},
		"a list after":                {number + 1, made.Add(time.Minute), bad},
		"after a disk that was reset": {number - 1, made.Add(time.Minute), bad},
		"after a clock that was set":  {number + 1, made.Add(-time.Minute), bad},
	} {
		list := ledger.Fact{At: made, Body: &instancev1.Observed{
			InstanceId: "i", Image: one, Health: bad, Generation: 1,
			Report: c.number, ReportedAt: timestamppb.New(c.at),
		}}
		i := &instancev1.Instance{Id: "i", Generation: 1, TaskGeneration: 1, Wanted: one}
		if !ApplyShown(i, end, made) {
			t.Fatalf("%s: the end shows nothing", name)
		}
		ApplyTask(i, end, made)
		if _, fit := Apply(i, list); i.Health != c.want || fit != (c.want == bad) {
			t.Errorf("%s, recorded last: %v, fit %v", name, i.Health, fit)
		}
	}
	list := &instancev1.Observed{
		InstanceId: "i", Image: one, Health: bad, Generation: 1, Report: number + 1,
		ReportedAt: timestamppb.New(made.Add(time.Second)),
	}
	i, _ := Apply(&instancev1.Instance{Id: "i", Generation: 1, TaskGeneration: 1, Wanted: one},
		ledger.Fact{At: made, Body: list})
	if ApplyShown(i, end, made) || i.Health != bad {
		t.Errorf("an end that is recorded after a later list: %v", i.Health)
	}
	if ApplyTask(i, end, made); i.State != failed {
		t.Errorf("the agent ended after its change had succeeded: %v", i.State)
	}
}
