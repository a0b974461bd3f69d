package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
)

const (
	// garbageEvery is how often it is looked how much the process allocates.
	garbageEvery = 250 * time.Millisecond
	// garbageLooks is the time between two collections that is aimed at, in looks. Each costs as much as is in use.
	garbageLooks = int(2 * time.Second / garbageEvery)
	// needFades is what is left of a past need after a look: a hundredth after half a minute.
	needFades = 0.96
	// smallHeap is up to how many bytes in use the garbage may be a multiple of them.
	smallHeap = 96 << 20
	// calmLooks is for how long little must be allocated before memory is returned, in looks.
	calmLooks = int(10 * time.Second / garbageEvery)
)

// garbageSteps are the amounts of garbage, in percent of what is in use, at which it is collected.
var garbageSteps = []int{50, 100, 200, 400}

// boundGarbage sets how much garbage there may be before a collection, until ctx is done: little while the process
// idles, when memory is all that a fleet costs, and more in a run, when each collection takes time from it.
func boundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" { // the environment's goes before ours
		return
	}
	tick := time.NewTicker(garbageEvery)
	defer tick.Stop()
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	var g garbage
	for percent := 0; ; {
		metrics.Read(samples)
		next, calm := g.look(samples[0].Value.Uint64(), samples[1].Value.Uint64())
		if next != percent {
			percent = next
			debug.SetGCPercent(percent)
		}
		if calm {
			debug.FreeOSMemory()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// garbage follows what the process allocates. The zero value is ready.
type garbage struct {
	allocated [garbageLooks]uint64 // in all, at the last looks
	looks     int
	need      float64 // bytes of garbage between two collections
	busy      bool    // more was allocated than while idle, and what that left was not returned
	calm      int     // looks since
}

// look takes how many bytes the process allocated in all, and how many were in use after the last collection. It
// returns how much garbage there may be in percent of those, and whether to return memory to the system: what a run or
// a join leaves, free parts of the heap and stacks that grew, would stay for as long as little is allocated.
func (g *garbage) look(allocated, inUse uint64) (percent int, calm bool) {
	at := g.looks % garbageLooks
	before := g.allocated[at]
	if g.looks < garbageLooks {
		before = g.allocated[0]
	}
	g.allocated[at] = allocated
	if g.looks++; g.looks > 1 {
		g.need = max(float64(allocated-before), g.need*needFades)
	}
	percent = garbagePercent(g.need, inUse)
	if percent > garbageSteps[0] {
		g.busy, g.calm = true, 0
		return percent, false
	}
	if g.calm++; !g.busy || g.calm < calmLooks {
		return percent, false
	}
	g.busy = false
	return percent, true
}

// garbagePercent returns the first of garbageSteps that holds so many bytes of garbage, or the highest.
func garbagePercent(need float64, inUse uint64) int {
	steps := garbageSteps
	if inUse > smallHeap {
		steps = steps[:len(steps)-1]
	}
	for _, percent := range steps {
		if float64(inUse)*float64(percent)/100 >= need {
			return percent
		}
	}
	return steps[len(steps)-1]
}

// limitMemory makes Go's runtime collect garbage more often as the process nears a limit: mib, or half
// of the memory of the machine or its container when mib is 0. GOMEMLIMIT goes before both. What others can
// make the process keep has bounds of its own; this one bounds the garbage between two collections.
func limitMemory(mib int, log zerolog.Logger) {
	limit, from := int64(mib)<<20, "--memory-limit"
	switch {
	case os.Getenv("GOMEMLIMIT") != "":
		limit, from = debug.SetMemoryLimit(-1), "GOMEMLIMIT"
	case mib == 0:
		limit, from = memoryOf(os.ReadFile)/2, "half of the memory here"
	}
	if limit <= 0 {
		log.Info().Msg("no memory limit: the memory of this machine is not known; set --memory-limit")
		return
	}
	debug.SetMemoryLimit(limit)
	log.Info().Int64("mib", limit>>20).Str("from", from).Msg("memory limit")
}

// memoryOf returns the memory of the container or, without a limit of its own, of the machine; 0 when
// that is not known.
func memoryOf(read func(string) ([]byte, error)) int64 {
	var machine int64
	if data, err := read("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
				kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
				machine = kib << 10
			}
		}
	}
	if data, err := read("/sys/fs/cgroup/memory.max"); err == nil { // "max" without a limit
		if own, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && own > 0 {
			if machine == 0 || own < machine {
				return own
			}
		}
	}
	return machine
}
