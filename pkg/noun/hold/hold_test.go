package hold_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/hold"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

func Example() {
	on := &intentv1.Selector{Environment: "prod"}
	set := &holdv1.Hold{Agent: "beacon", On: on}
	f := ledger.Fact{Noun: ledger.Hold, Key: hold.ID("beacon", on), Body: set, Actor: "ann", Note: "OPS-7"}
	h, _ := hold.Apply(nil, f)
	fmt.Println(h.Agent, h.On.Environment, h.SetBy, h.Reason)
	// Output: beacon prod ann OPS-7
}

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := hold.Life.Check(); err != nil {
		t.Error(err)
	}
}

func TestAnUnknownHoldIsNotUnset(t *testing.T) {
	f := ledger.Fact{Noun: ledger.Hold, Key: "x", Body: &holdv1.Unset{}}
	if _, fit := hold.Apply(nil, f); fit {
		t.Error("it fits")
	}
}

func TestAnUnsetHoldIsGone(t *testing.T) {
	f := ledger.Fact{Noun: ledger.Hold, Key: "x", Body: &holdv1.Unset{}}
	if next, fit := hold.Apply(&holdv1.Hold{Id: "x"}, f); !fit || next != nil {
		t.Errorf("have %v, %v", next, fit)
	}
}

func TestAHoldEndsWithItsTime(t *testing.T) {
	end := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	timed := &holdv1.Hold{Until: timestamppb.New(end)}
	for _, c := range []struct {
		hold *holdv1.Hold
		at   time.Time
		want bool
	}{
		{timed, end.Add(-time.Second), true},
		{timed, end, false},
		{&holdv1.Hold{}, end, true},
		{nil, end, false},
	} {
		if have := hold.InEffect(c.hold, c.at); have != c.want {
			t.Errorf("%v at %v: have %v", c.hold, c.at, have)
		}
	}
}

func TestTheIDDependsOnTheAgentAndTheSelector(t *testing.T) {
	all, prod := &intentv1.Selector{All: true}, &intentv1.Selector{Environment: "prod"}
	one := hold.ID("beacon", all)
	if one != hold.ID("beacon", &intentv1.Selector{All: true}) {
		t.Error("the same hold has two ids")
	}
	if one == hold.ID("beacon", prod) || one == hold.ID("other", all) {
		t.Error("two holds have one id")
	}
}
