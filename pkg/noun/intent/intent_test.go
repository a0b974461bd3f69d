package intent_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/intent"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := intent.Life.Check(); err != nil {
		t.Error(err)
	}
}

func TestEveryFactInEveryStateFollowsTheTableOrChangesNothing(t *testing.T) {
	for _, state := range intent.Life.States() {
		for _, k := range ledger.Kinds {
			if k.Noun != ledger.Intent {
				continue
			}
			before := &intentv1.Record{Id: "i", State: state}
			if state == intentv1.State_STATE_UNSPECIFIED {
				before = nil
			}
			after, fit := intent.Apply(proto.CloneOf(before), ledger.Fact{
				Noun: ledger.Intent, Key: "i", Actor: "anna", Body: k.Body, At: time.Unix(1, 0),
			})
			next, want := intent.Life.Next(state, k.Name)
			switch {
			case fit != want:
				t.Errorf("%s in %s fits: %v; want %v", k.Name, state, fit, want)
			case !fit && !proto.Equal(before, after):
				t.Errorf("%s does not fit in %s but changed it: %v", k.Name, state, after)
			case fit && after.GetState() != next:
				t.Errorf("%s in %s leads to %s; want %s", k.Name, state, after.GetState(), next)
			}
		}
	}
}

func TestARecordNamesItsActorsAndTimes(t *testing.T) {
	accepted, _ := intent.Apply(nil, ledger.Fact{
		Key: "i", Actor: "anna", Body: &intentv1.Accepted{Changed: 3}, At: time.Unix(1, 0),
	})
	r, fit := intent.Apply(accepted, ledger.Fact{
		Key: "i", Actor: "bert", Body: &intentv1.Withdrawn{Reason: "too early"}, At: time.Unix(2, 0),
	})
	if !fit || r.Actor != "anna" || r.Changed != 3 || r.DecidedAt.Seconds != 1 ||
		r.WithdrawnBy != "bert" || r.WithdrawnReason != "too early" || r.WithdrawnAt.Seconds != 2 {
		t.Errorf("fit %v, record %v", fit, r)
	}
}
