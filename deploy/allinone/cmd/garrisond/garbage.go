package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// garbageEvery is how often it is looked how much the process allocates.
	garbageEvery = 250 * time.Millisecond
	// garbageOf is the time between two collections that is aimed at. Each costs as much as there is in use.
	garbageOf = 2 * time.Second
	// rateFades is what is left of a past rate after garbageEvery: a hundredth after half a minute.
	rateFades = 0.96
	// smallHeap is up to how many bytes in use the garbage may be a multiple of them.
	smallHeap = 96 << 20
)

// garbageSteps are the amounts of garbage, in percent of what is in use, at which it is collected.
var garbageSteps = []int{50, 100, 200, 400}

// boundGarbage sets how much garbage there may be before a collection, until ctx is done: little while the process
// idles, when memory is all that a fleet costs, and more in a run, when each collection takes time from it.
// The environment's GOGC goes before it.
func boundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	tick := time.NewTicker(garbageEvery)
	defer tick.Stop()
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	before, at, rate, percent := samples[0].Value.Uint64(), time.Now(), 0.0, 0
	for {
		if next := garbagePercent(rate, samples[1].Value.Uint64()); next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		metrics.Read(samples)
		allocated, now := samples[0].Value.Uint64(), time.Now()
		rate = max(float64(allocated-before)/now.Sub(at).Seconds(), rate*rateFades)
		before, at = allocated, now
	}
}

// garbagePercent returns the first of garbageSteps that holds what is allocated in garbageOf, at a rate in bytes a
// second, or the highest.
func garbagePercent(rate float64, inUse uint64) int {
	steps := garbageSteps
	if inUse > smallHeap {
		steps = steps[:len(steps)-1]
	}
	for _, percent := range steps {
		if float64(inUse)*float64(percent)/100 >= rate*garbageOf.Seconds() {
			return percent
		}
	}
	return steps[len(steps)-1]
}
