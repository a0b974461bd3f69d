package pace

import (
	"fmt"
	"testing"
	"time"
)

func at(p *Pace, now time.Time) *Pace {
	p.now = func() time.Time { return now }
	return p
}

func TestAKeyGetsItsTurnsOnceAPeriod(t *testing.T) {
	start := time.Now()
	p := at(New(2, time.Minute), start)
	for i, want := range []bool{true, true, false, false} {
		if _, ok := p.Take("a"); ok != want {
			t.Errorf("turn %d: %v, want %v", i, ok, want)
		}
	}
	if _, ok := p.Take("b"); !ok {
		t.Error("another key has no turn")
	}
	if leftOut, ok := at(p, start.Add(time.Minute)).Take("a"); !ok || leftOut != 2 {
		t.Errorf("after the period: %v with %d left out, want a turn with 2", ok, leftOut)
	}
	if leftOut, ok := p.Take("a"); !ok || leftOut != 0 {
		t.Errorf("the next turn: %v with %d left out, want a turn with 0", ok, leftOut)
	}
}

func TestKeysBeyondTheBoundShareOneAllowance(t *testing.T) {
	start := time.Now()
	p := at(New(1, time.Minute), start)
	passed := 0
	for i := range 2 * maxKeys {
		if _, ok := p.Take(fmt.Sprint(i)); ok {
			passed++
		}
	}
	if passed != maxKeys+1 || len(p.keys) > maxKeys+1 {
		t.Errorf("%d turns and %d keys, want %d", passed, len(p.keys), maxKeys+1)
	}
	at(p, start.Add(time.Minute))
	if _, ok := p.Take("late"); !ok || len(p.keys) != 1 {
		t.Errorf("after the period: %v and %d keys, want a turn and 1", ok, len(p.keys))
	}
}
