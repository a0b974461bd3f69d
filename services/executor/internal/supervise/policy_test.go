package supervise

import (
	"testing"
	"time"
)

func TestAProcessThatKeepsEndingWaitsLongerUntilItIsACrashLoop(t *testing.T) {
	p := Policy{
		First: time.Second, Longest: 3 * time.Second, Steady: time.Minute,
		CrashLoop: 4, Resting: time.Hour,
	}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s Status
	for n, step := range []struct {
		ran, wait time.Duration
		loop      bool
	}{
		{time.Second, time.Second, false},
		{time.Second, 2 * time.Second, false},
		{time.Second, 3 * time.Second, false},
		{time.Second, time.Hour, true},
		{59 * time.Second, time.Hour, true},
		{time.Minute, time.Second, false}, // it was steady
	} {
		wait := p.Ended(&s, "exit status 1", began, began.Add(step.ran))
		if wait != step.wait || s.CrashLoop != step.loop {
			t.Errorf("end %d: wait %s, crash loop %v; want %s, %v", n+1, wait, s.CrashLoop, step.wait, step.loop)
		}
		if next := began.Add(step.ran + step.wait); !s.NextStart.Equal(next) {
			t.Errorf("end %d: the next start is at %s, want %s", n+1, s.NextStart, next)
		}
	}
}

func TestASteadyProcessIsNoCrashLoop(t *testing.T) {
	p := Policy{Steady: time.Minute}
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	was := Status{CrashLoop: true, Restarts: 9, NextStart: began}
	for ran, loop := range map[time.Duration]bool{59 * time.Second: true, time.Minute: false} {
		if s := p.Runs(was, 7, began, began.Add(ran)); s.CrashLoop != loop || s.Pid != 7 ||
			s.StartedAt != began || !s.NextStart.IsZero() {
			t.Errorf("after %s: %+v, want crash loop %v", ran, s, loop)
		}
	}
}
