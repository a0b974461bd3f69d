package heap

import (
	"context"
	"runtime"
	"runtime/metrics"
	"testing"
	"time"
)

func TestAFifthOfALargeHeapIsGarbageAndAsMuchAsIsLiveOfASmallOne(t *testing.T) {
	for _, c := range []struct {
		live      uint64
		replaying bool
		want      int
	}{
		{0, false, 100}, {4 << 20, false, 100}, {16 << 20, false, 50}, {40 << 20, false, 20}, {2 << 30, false, 20},
		{2 << 30, true, 100},
	} {
		if have := percent(c.live, c.replaying); have != c.want {
			t.Errorf("%d live, replaying %v: %d%%, want %d%%", c.live, c.replaying, have, c.want)
		}
	}
}

func TestAHeapGrowsFasterUntilEveryReplayEnded(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); Keep(ctx) }()
	held := make([]byte, 256<<20) // a view
	one, two := Replay(), Replay()
	waitFor(t, mostPercent)
	one()
	one() // ends one replay, not two
	if n := replays.Load(); n != 1 {
		t.Errorf("%d replays go on, want 1", n)
	}
	runtime.GC()
	two()
	waitFor(t, leastPercent)
	runtime.KeepAlive(held)
	cancel()
	<-ended
}

// waitFor waits until the heap may grow by so many percent.
func waitFor(t *testing.T, want int) {
	t.Helper()
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if metrics.Read(sample); sample[0].Value.Uint64() == uint64(want) {
			return
		}
	}
	t.Fatalf("the heap may grow by %d%%, want %d%%", sample[0].Value.Uint64(), want)
}
