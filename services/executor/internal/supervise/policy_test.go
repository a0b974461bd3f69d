package supervise

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"
)

func TestTheWaitForAStartIsNeverLongerThanTheProcessHasFailed(t *testing.T) {
	p := Policy{First: time.Second, Longest: 6 * time.Second, Steady: time.Minute, CrashLoop: 4}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s Status
	for n, step := range []struct {
		ran, wait time.Duration
		loop      bool
	}{
		{time.Hour, time.Second, false},
		{0, time.Second, false}, // it has failed for a second
		{0, 2 * time.Second, false},
		{0, 4 * time.Second, true},
		{0, 6 * time.Second, true}, // the longest
		{59 * time.Second, 6 * time.Second, true},
		{time.Minute, time.Second, false}, // it was steady
		{30 * time.Second, 2 * time.Second, false},
	} {
		started := at
		at = at.Add(step.ran)
		wait := p.Ended(&s, End{How: "exit status 1", Started: started}, at)
		if wait != step.wait || s.CrashLoop != step.loop {
			t.Errorf("end %d: wait %s, crash loop %v; want %s, %v", n+1, wait, s.CrashLoop, step.wait, step.loop)
		}
		if at = at.Add(step.wait); !s.NextStart.Equal(at) {
			t.Errorf("end %d: the next start is at %s, want %s", n+1, s.NextStart, at)
		}
	}
}

func TestTheTimeInWhichAHealthCheckFailedIsNotSteady(t *testing.T) {
	p := Policy{First: time.Second, Longest: time.Hour, Steady: time.Minute, CrashLoop: 3}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var s Status
	for n, fine := range []time.Duration{time.Hour, 10 * time.Second, 10 * time.Second} {
		ended := at.Add(fine + 2*time.Minute)
		wait := p.Ended(&s, End{Started: at, Failed: at.Add(fine)}, ended)
		if want := time.Second << n; wait != want || s.Restarts != n+1 || s.CrashLoop != (n == 2) {
			t.Errorf("end %d: wait %s, %+v; want %s", n+1, wait, s, want)
		}
		at = ended.Add(wait)
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

func TestAWaitEndsWhenTheCauseOfTheEndIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Policy{First: time.Second}
		began := time.Now()
		c := Cause{What: "127.0.0.1:80 is held", Gone: func() bool { return time.Since(began) >= 20*time.Second }}
		if !p.Pause(nil, time.Hour, c, zerolog.Nop()) || time.Since(began) != 20*time.Second {
			t.Errorf("it waited for %s, want 20s", time.Since(began))
		}
		began = time.Now()
		never := Cause{Gone: func() bool { return false }}
		if !p.Pause(nil, time.Minute, never, zerolog.Nop()) || time.Since(began) != time.Minute {
			t.Errorf("it waited for %s, want 1m0s", time.Since(began))
		}
		began = time.Now()
		if !p.Pause(nil, time.Second, Cause{Gone: func() bool { return true }}, zerolog.Nop()) ||
			time.Since(began) != time.Second {
			t.Errorf("a cause that was gone at once: it waited for %s, want the first wait", time.Since(began))
		}
		stop := make(chan struct{})
		close(stop)
		if p.Pause(stop, time.Hour, never, zerolog.Nop()) {
			t.Error("it was stopped, and starts")
		}
	})
}
