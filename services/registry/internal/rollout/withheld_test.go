package rollout_test

import (
	"testing"
	"time"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
)

// Two agents change in the first step and a third one in the second.
func TestAChangeThatWasWithdrawnBeforeItBeganIsDueAgain(t *testing.T) {
	const (
		reached = rolloutv1.TargetState_TARGET_STATE_REACHED
		pending = rolloutv1.TargetState_TARGET_STATE_PENDING
		owed    = rolloutv1.TargetState_TARGET_STATE_OWED
		left    = rolloutv1.TargetState_TARGET_STATE_LEFT_OUT
	)
	ends := func(change int) rollout.Event { return rollout.Event{Kind: rollout.Ended, Change: change, OK: true} }
	held := func(change int) rollout.Event { return rollout.Event{Kind: rollout.Withheld, Change: change} }
	taken := func(step uint32) rollout.Event { return rollout.Event{Kind: rollout.Taken, Step: step} }
	asked := func(change int) rollout.Event {
		return rollout.Event{Kind: rollout.Released, Change: change, IntentID: "i"}
	}
	first := []rollout.Event{taken(1), asked(0), asked(1)}
	second := append(first[:3:3], ends(0), ends(1), taken(2), asked(2))
	for _, c := range []struct {
		name   string
		wave   uint32
		events []rollout.Event
		want   rolloutv1.TargetState
		next   uint32 // the step that is due
	}{
		{"one of two", 1, append(first[:3:3], held(0)), reached, 0},
		{"both", 1, append(first[:3:3], held(0), held(1)), pending, 0},
		{"both, after its wave", 0, append(first[:3:3], held(0), held(1)), owed, 0},
		{"one, after the other succeeded", 1, append(first[:3:3], ends(0), held(1)), left, 0},
		{"one, before the other succeeded", 1, append(first[:3:3], held(1), ends(0)), left, 0},
		{"the second step", 1, append(second[:7:7], held(2)), reached, 2},
		{"released once more", 1, append(first[:3:3], held(0), held(1), taken(1), asked(0), asked(1)), reached, 0},
	} {
		r := &rolloutv1.Rollout{Waves: []*rolloutv1.Wave{{Servers: 1}}, Owed: &rolloutv1.Wave{}}
		target := &rolloutv1.Target{ServerId: "s", Wave: c.wave, State: pending, Changes: []*rolloutv1.Change{
			{Agent: "a", Step: 1}, {Agent: "b", Step: 1}, {Agent: "c", Step: 2},
		}}
		for _, e := range c.events {
			e.At = time.Unix(1000, 0)
			rollout.Move(r, target, e)
		}
		if target.State != c.want || rollout.NextStep(target) != c.next {
			t.Errorf("%s: %v with step %d due, want %v with step %d", c.name, target.State, rollout.NextStep(target),
				c.want, c.next)
		}
	}
}

// One of two agents of a step had changed when the rollout stopped, and the other one had not begun.
func TestAnAgentThatChangedOnAServerThatIsLeftOutIsJudged(t *testing.T) {
	const (
		left   = rolloutv1.TargetState_TARGET_STATE_LEFT_OUT
		broken = rolloutv1.TargetState_TARGET_STATE_BROKEN
	)
	seen := func(ok bool) rollout.Event {
		return rollout.Event{Kind: rollout.Seen, Change: 0, Agent: "a", Generation: 7, OK: ok}
	}
	unhealthy := func(agent string) rollout.Event { return rollout.Event{Kind: rollout.Unhealthy, Agent: agent} }
	for name, c := range map[string]struct {
		awaited uint64
		events  []rollout.Event
		want    rolloutv1.TargetState
	}{
		"nothing more happens":              {0, nil, left},
		"it becomes unhealthy":              {0, []rollout.Event{unhealthy("a")}, broken},
		"the one that did not begin does":   {0, []rollout.Event{unhealthy("b")}, left},
		"it is seen unhealthy":              {7, []rollout.Event{seen(false)}, broken},
		"it is seen healthy":                {7, []rollout.Event{seen(true)}, left},
		"it is seen healthy, and then ends": {7, []rollout.Event{seen(true), unhealthy("a")}, broken},
		"it was not seen after its change":  {7, []rollout.Event{unhealthy("a")}, left},
	} {
		r := &rolloutv1.Rollout{Waves: []*rolloutv1.Wave{{Servers: 1}}, Owed: &rolloutv1.Wave{}}
		target := &rolloutv1.Target{
			ServerId: "s", Wave: 1, State: rolloutv1.TargetState_TARGET_STATE_PENDING,
			Changes: []*rolloutv1.Change{{Agent: "a"}, {Agent: "b"}},
		}
		for _, e := range append([]rollout.Event{
			{Kind: rollout.Taken, Step: 1}, {Kind: rollout.Released, Change: 0, IntentID: "i"},
			{Kind: rollout.Released, Change: 1, IntentID: "j"},
			{Kind: rollout.Ended, Change: 0, OK: true, Generation: c.awaited}, {Kind: rollout.Withheld, Change: 1},
		}, c.events...) {
			e.At = time.Unix(1000, 0)
			rollout.Move(r, target, e)
		}
		if target.State != c.want {
			t.Errorf("%s: %v; want %v", name, target.State, c.want)
		}
	}
}
