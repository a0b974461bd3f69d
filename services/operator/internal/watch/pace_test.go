package watch

import (
	"testing"
	"time"
)

func TestAnEstimateShrinksWhileNothingEndsAndIsThenWithdrawn(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_800_000_000, 0)
	var p pace
	for _, c := range []struct {
		after time.Duration
		done  int
		want  time.Duration
	}{
		{time.Second, 1, 0},      // too early
		{10 * time.Second, 0, 0}, // nothing ended
		{20 * time.Second, 2, 80 * time.Second},
		{50 * time.Second, 2, 50 * time.Second},
		{60 * time.Second, 4, 90 * time.Second},
		{150 * time.Second, 4, 0}, // used up
		{time.Hour, 4, 0},
		{time.Hour + time.Second, 10, 0}, // all ended
	} {
		if got := p.left(began, began.Add(c.after), c.done, 10); got != c.want {
			t.Errorf("%s after the beginning, with %d of 10 ended: %s left, want %s", c.after, c.done, got, c.want)
		}
	}
}
