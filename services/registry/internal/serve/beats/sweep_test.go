package beats

import (
	"testing"
	"time"
)

func TestSweepsOfALargeFleetTakeAShareOfTheTime(t *testing.T) {
	const every, interval = time.Second, 5 * time.Second
	for looked, want := range map[time.Duration]time.Duration{
		0:                      every,
		10 * time.Millisecond:  every,
		100 * time.Millisecond: 2 * time.Second,
		time.Second:            interval,
		time.Minute:            interval,
	} {
		if got := restAfter(looked, every, interval); got != want {
			t.Errorf("after a sweep of %v the next one waits %v, want %v", looked, got, want)
		}
	}
}
