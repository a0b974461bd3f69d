package task

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func TestEveryFactInEveryStateMovesAsTheTableSaysOrChangesNothing(t *testing.T) {
	if err := Moves.Check(); err != nil {
		t.Fatal(err)
	}
	for n := range taskv1.State_name {
		state := taskv1.State(n)
		for _, k := range ledger.Kinds {
			if k.Noun != ledger.Task {
				continue
			}
			before := &taskv1.Task{Id: "t", State: state}
			after, fit := Apply(proto.CloneOf(before), ledger.Fact{Noun: ledger.Task, Key: "t", Body: k.Body, At: time.Unix(1, 0)})
			next, want := Moves.Next(state, k.Name)
			if fit != want || after.State != next || !fit && !proto.Equal(before, after) {
				t.Errorf("%s in %s: fit %v, then %s; want %v, %s", k.Name, state, fit, after.State, want, next)
			}
		}
	}
}

func TestTheReasonOfABadEndSaysWhatTheExecutorSaid(t *testing.T) {
	f := ledger.Fact{Noun: ledger.Task, Key: "t", Body: &taskv1.Undone{Outcome: &taskv1.Outcome{Code: "NOT_READY", Reason: "no answer in 30 s"}}}
	after, _ := Apply(&taskv1.Task{State: taskv1.State_STATE_RUNNING}, f)
	if want := "the last change was undone: NOT_READY: no answer in 30 s"; after.Reason != want {
		t.Errorf("reason %q; want %q", after.Reason, want)
	}
}
