package rolling

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestAnUndoInheritsNoWait(t *testing.T) {
	t.Parallel()
	hour := durationpb.New(time.Hour)
	past := &rolloutv1.Rollout{Strategy: &rolloutv1.Strategy{
		Stages: []*rolloutv1.Stage{
			{Size: &rolloutv1.Stage_Servers{Servers: 3}, Soak: hour, Approve: true},
			{Size: &rolloutv1.Stage_Percent{Percent: 50}, Soak: hour},
		},
		Concurrency: 5, SuccessPercent: 90, Soak: hour, Approve: true, ApproveByOther: true, JoinFor: hour,
		Keep: []*rolloutv1.Keep{{Field: "label.rack"}}, Override: true,
	}}
	p := wayBack{&planner{}}
	p.inherit(past)
	want := &rolloutv1.Strategy{
		Stages: []*rolloutv1.Stage{
			{Size: &rolloutv1.Stage_Servers{Servers: 3}}, {Size: &rolloutv1.Stage_Percent{Percent: 50}},
		},
		Concurrency: 5, SuccessPercent: 90, Keep: []*rolloutv1.Keep{{Field: "label.rack"}},
	}
	if diff := cmp.Diff(want, p.Strategy, protocmp.Transform()); diff != "" {
		t.Errorf("the strategy of an undo (-want +have):\n%s", diff)
	}
	if !past.Strategy.Approve || past.Strategy.Stages[0].Soak == nil {
		t.Error("the strategy of what is undone changed")
	}
}
