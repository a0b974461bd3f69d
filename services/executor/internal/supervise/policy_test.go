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

func TestAnOutputFileIsLookedAtBeforeItCanReachItsBoundAgain(t *testing.T) {
	const kib = 1 << 10
	p := Policy{OutputBytes: 1000 * kib}
	for name, c := range map[string]struct {
		g    growth
		cut  bool
		last time.Duration
		want time.Duration
	}{
		"nothing was written":         {growth{5, 5, time.Second}, false, time.Second, 2 * time.Second},
		"it rests":                    {growth{5, 5, 2 * time.Second}, false, 2 * time.Second, 2 * time.Second},
		"100 KiB a second, half full": {growth{400 * kib, 500 * kib, time.Second}, false, time.Second, 2 * time.Second},
		"1 MiB a second, half full": {
			growth{0, 500 * kib, time.Second / 2}, false, time.Second, time.Second / 4,
		},
		"it is nearly full":    {growth{0, 999 * kib, time.Second}, false, time.Second, outputOften / 2},
		"cut, and it is slow":  {growth{999 * kib, 1000 * kib, time.Second}, true, time.Second, outputOften},
		"cut, and it is fast":  {growth{0, 9000 * kib, time.Second / 2}, true, time.Second, outputOften / 2 * 10 / 9},
		"it was cut elsewhere": {growth{999 * kib, 5, time.Second}, false, time.Second, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got := p.nextLook(c.g, c.cut, c.last)
			if d := got - c.want; d > time.Millisecond || d < -time.Millisecond {
				t.Errorf("the next look is after %s, want %s", got, c.want)
			}
		})
	}
}
