package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGarbageIsBoundedByWhatIsAllocated(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		what    string
		rate    float64
		inUse   uint64
		percent int
	}{
		{"nothing is in use yet", 0, 0, 50},
		{"an idle fleet", 4 * mib, 60 * mib, 50},
		{"a fleet that joins", 25 * mib, 60 * mib, 100},
		{"a run", 130 * mib, 40 * mib, 400},
		{"the most", 1000 * mib, 40 * mib, 400},
		{"a run of a large fleet", 1000 * mib, 900 * mib, 200},
	} {
		if have := garbagePercent(c.rate, c.inUse); have != c.percent {
			t.Errorf("%s: %d %%, want %d %%", c.what, have, c.percent)
		}
	}
}

func TestGarbageIsCollectedLaterWhileMuchIsAllocated(t *testing.T) {
	t.Setenv("GOGC", "")
	was := debug.SetGCPercent(100)
	defer debug.SetGCPercent(was)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); boundGarbage(ctx) }()
	defer func() { cancel(); <-ended }()
	percent := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	var kept []byte
	for until := time.Now().Add(time.Minute); percent() < 200; {
		if time.Now().After(until) {
			t.Fatalf("%d %% while much is allocated, want 200 or more", percent())
		}
		kept = make([]byte, 1<<20)
	}
	runtime.KeepAlive(kept)
}
