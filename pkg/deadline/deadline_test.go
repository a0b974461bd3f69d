package deadline_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/deadline"
)

func run(timeout, soak, stop time.Duration) *imagev1.Run {
	ms := func(d time.Duration) uint32 { return uint32(d.Milliseconds()) }
	return &imagev1.Run{Ready: &imagev1.Ready{TimeoutMs: ms(timeout), SoakMs: ms(soak)}, StopTimeoutMs: ms(stop)}
}

func TestAnImageGetsTheTimeThatItsOwnLimitsNeed(t *testing.T) {
	hour := run(time.Hour, time.Hour, time.Minute)
	checked := run(time.Hour, 0, 0)
	checked.Rehearsal = &imagev1.Exec{Command: "check"}
	for _, c := range []struct {
		name     string
		to, from *imagev1.Run
		want     time.Duration
	}{
		{"nothing named", &imagev1.Run{}, &imagev1.Run{}, 0},
		{"no image", nil, nil, 0},
		{"shorter than the default ones", run(time.Second, time.Millisecond, time.Second), nil, 0},
		{"a long proof", hour, nil, 2*time.Hour - 31*time.Second + 50*time.Second},
		{"and the way back to another", hour, hour, 4*time.Hour - 62*time.Second + 100*time.Second},
		{"a rehearsal takes as long as the proof", checked, nil, 2*time.Hour - time.Minute},
	} {
		if got := deadline.Extra(c.to, c.from); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whatever the limits are, a version may use all of them and be undone before the deadline.
func TestTheServersOwnLimitComesBeforeTheDeadline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) time.Duration {
			return time.Duration(rapid.IntRange(0, 3600).Draw(t, name)) * time.Second
		}
		to, from := run(draw("ready"), draw("soak"), draw("stop")), run(draw("old ready"), draw("old soak"),
			draw("old stop"))
		begun := time.Unix(1_000_000, 0)
		base := 10 * time.Minute
		end := begun.Add(base + deadline.Extra(to, from))
		margin := deadline.Margin(to, from)
		own := deadline.Own(begun, end, margin, base)
		if !own.After(begun) || !own.Before(end) || end.Sub(own) > margin {
			t.Fatalf("own limit %s, deadline %s, margin %s", own, end, margin)
		}
	})
}

func TestADeadlineThatPassedByThisClockIsNoLimit(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for _, passed := range []time.Time{{}, now, now.Add(-time.Hour)} {
		if got := deadline.Own(now, passed, time.Minute, time.Hour); !got.Equal(now.Add(time.Hour)) {
			t.Errorf("%s: %s, want an hour from now", passed, got)
		}
	}
}

func Example() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	old, image := &imagev1.Run{}, &imagev1.Run{Ready: &imagev1.Ready{SoakMs: 30 * 60 * 1000}}
	end := now.Add(10*time.Minute + deadline.Extra(image, old))
	own := deadline.Own(now, end, deadline.Margin(image, old), 10*time.Minute)
	fmt.Println(end.Format(time.TimeOnly), own.Format(time.TimeOnly))
	// Output: 12:39:59 12:39:03
}
