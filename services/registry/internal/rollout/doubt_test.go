package rollout_test

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

func (y *story) moves(kind rollout.EventKind, servers ...string) {
	for _, id := range servers {
		y.Apply(id, rollout.Event{Kind: kind, At: y.now})
	}
}

// Servers that were called offline late, because presence was held, fall silent when the soak has passed.
func TestAWaveDoesNotPassBeforeItIsKnownWhetherItsSilentServersAreBroken(t *testing.T) {
	const waits = " silent, to come back or to count as broken"
	begun := func(s *rolloutv1.Strategy) *story {
		s.Soak, s.Silence = durationpb.New(time.Minute), durationpb.New(time.Minute)
		y := tell(t, s)
		for range 2 {
			y.does()
			y.ends(true, "a1", "b1")
		}
		y.now = y.now.Add(time.Minute - 1)
		return y
	}
	y := begun(&rolloutv1.Strategy{MaxBroken: broke(0)})
	y.moves(rollout.Away, "a1")
	y.now = y.now.Add(1)
	y.expect("1 server that it changed and that is" + waits)
	y.now = y.now.Add(time.Minute)
	y.expect("silence a1", code.TooManyBroken, halted)

	y = begun(&rolloutv1.Strategy{MaxBroken: broke(9)})
	y.moves(rollout.Away, "a1", "b1") // the limit allows it, and wave 2 would begin untried
	y.now = y.now.Add(1)
	y.expect("2 servers that it changed and that are" + waits)
	y.moves(rollout.Back, "a1")
	y.expect("pass", "open", "release c2 d2", "the servers of wave 2: 0 of 2 succeeded, 2 under way")
}

func TestNothingBeginsWhilePresenceIsHeld(t *testing.T) {
	running := &rolloutv1.Rollout{State: rolloutv1.State_STATE_RUNNING}
	for name, d := range map[string]rollout.Decision{
		"opens": {Open: 2}, "passes": {Pass: 1}, "releases": {Release: []string{"a"}, Wave: 1}, "ends": {Succeed: true},
	} {
		if have := d.Hold(running, ""); have.Acts() != true {
			t.Errorf("%s without a hold: %+v", name, have)
		}
		if have := d.Hold(running, "silence"); have.Acts() || have.Waits != "silence" {
			t.Errorf("%s: %+v", name, have)
		}
	}
	halts := rollout.Decision{Halt: &apiv1.Refusal{Code: code.TooManyBroken}}
	if have := halts.Hold(running, "silence"); have.Halt == nil {
		t.Errorf("it does not halt: %+v", have)
	}
	if have := (rollout.Decision{Waits: "a change"}).Hold(running, "silence"); have.Waits != "a change; silence" {
		t.Errorf("it waits for %q", have.Waits)
	}
}
