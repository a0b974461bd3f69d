package instance

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

func Example() {
	image := &imagev1.Ref{Id: "image"}
	fact := func(body proto.Message) ledger.Fact {
		return ledger.Fact{Noun: ledger.Instance, Key: "s1.beacon", Body: body, At: time.Unix(1, 0)}
	}
	i, _ := Apply(nil, fact(&instancev1.Wanted{InstanceId: "i", Generation: 1, Image: image}))
	fmt.Println(i.Agent, i.State)
	i, _ = Apply(i, fact(&instancev1.Observed{
		InstanceId: "i", Generation: 1, Image: image, Health: instancev1.Health_HEALTH_GOOD,
	}))
	fmt.Println(i.Agent, i.State)
	// Output:
	// beacon STATE_PENDING
	// beacon STATE_CONVERGED
}

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := Life.Check(); err != nil {
		t.Error(err)
	}
}

// Each fact is tried with the right instance and a newer generation, and with another instance.
func TestEveryFactInEveryStateFollowsTheTableOrChangesNothing(t *testing.T) {
	image := &imagev1.Ref{Id: "image"}
	bodies := func(id string) []proto.Message {
		return []proto.Message{
			&instancev1.Wanted{InstanceId: id, Generation: 2, Image: image},
			&instancev1.Unwanted{InstanceId: id, Generation: 2},
			&instancev1.Observed{InstanceId: id, Image: image},
			&instancev1.Adopted{InstanceId: id, Image: image},
			&instancev1.Gone{InstanceId: id},
		}
	}
	walked := map[string]bool{}
	for state, before := range map[Existence]*instancev1.Instance{
		Absent: nil, Present: {Id: "i", ServerId: "s", Agent: "web", Generation: 1, Wanted: image},
	} {
		for _, id := range []string{"i", "other"} {
			for _, body := range bodies(id) {
				f := ledger.Fact{Noun: ledger.Instance, Key: "s.web", Body: body, At: time.Unix(1, 0)}
				walked[f.Name()] = true
				next, want := Life.Next(state, f.Name())
				want = want && (state == Absent || id == "i")
				after, fit := Apply(proto.CloneOf(before), f)
				switch {
				case fit != want:
					t.Errorf("%s of %s in %s fits: %v; want %v", f.Name(), id, state, fit, want)
				case !fit && !proto.Equal(before, after):
					t.Errorf("%s of %s does not fit in %s but changed it: %v", f.Name(), id, state, after)
				case fit && (after == nil) != (next == Absent):
					t.Errorf("%s in %s leads to %v; want %s", f.Name(), state, after, next)
				}
			}
		}
	}
	for _, k := range ledger.Kinds {
		if k.Noun == ledger.Instance && !walked[k.Name] {
			t.Errorf("the fact %s is not walked", k.Name)
		}
	}
}

func TestTheReasonOfABadEndNamesTheCodeAndTheExecutorsReason(t *testing.T) {
	i := after(t, wanted(1, one))
	ApplyTask(i, &taskv1.Task{
		InstanceId: "i", Generation: 1, State: undone, To: one, Reason: "no answer in 30 s",
		Outcome: &taskv1.Outcome{Code: "NOT_READY", Reason: "no answer in 30 s"},
	}, time.Unix(9, 0))
	if want := "the last change was undone: NOT_READY: no answer in 30 s"; i.Reason != want {
		t.Errorf("reason %q; want %q", i.Reason, want)
	}
}
