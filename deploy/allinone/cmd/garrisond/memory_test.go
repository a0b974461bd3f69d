package main

import (
	"context"
	"io/fs"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

func TestGarbageIsBoundedByWhatIsAllocated(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for _, c := range []struct {
		what    string
		need    float64
		inUse   uint64
		percent int
	}{
		{"nothing is in use yet", 0, 0, 50},
		{"an idle fleet", 8 * mib, 60 * mib, 50},
		{"a fleet that joins", 50 * mib, 60 * mib, 100},
		{"a run", 160 * mib, 40 * mib, 400},
		{"the most", 1000 * mib, 40 * mib, 400},
		{"a run of a large fleet", 1000 * mib, 900 * mib, 200},
	} {
		if have := garbagePercent(c.need, c.inUse); have != c.percent {
			t.Errorf("%s: %d %%, want %d %%", c.what, have, c.percent)
		}
	}
}

func TestGarbageIsCollectedLaterWhileMuchIsAllocated(t *testing.T) {
	t.Parallel()
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

// lookOften has garbage look as often as that, while so many bytes are allocated between two looks of 40 MiB in use. It
// returns the last percentage, and how often memory was returned.
func (g *garbage) lookOften(looks int, each uint64) (percent, calms int) {
	allocated := g.allocated[(g.looks+garbageLooks-1)%garbageLooks]
	for range looks {
		allocated += each
		next, calm := g.look(allocated, 40<<20)
		if percent = next; calm {
			calms++
		}
	}
	return percent, calms
}

func TestMemoryIsReturnedOnceWhenARunHasEnded(t *testing.T) {
	t.Parallel()
	var g garbage
	if percent, calms := g.lookOften(1000, 1<<20); percent != 50 || calms != 0 {
		t.Errorf("idle: %d %%, returned %d times; want 50 %%, 0", percent, calms)
	}
	if percent, calms := g.lookOften(20, 30<<20); percent != 400 || calms != 0 {
		t.Errorf("a run: %d %%, returned %d times; want 400 %%, 0", percent, calms)
	}
	if percent, calms := g.lookOften(calmLooks, 1<<20); percent == 50 || calms != 0 {
		t.Errorf("a moment later: %d %%, returned %d times; want more than 50 %%, 0", percent, calms)
	}
	if percent, calms := g.lookOften(1000, 1<<20); percent != 50 || calms != 1 {
		t.Errorf("idle again: %d %%, returned %d times; want 50 %%, once", percent, calms)
	}
}

func TestABurstCountsForWhatItAllocates(t *testing.T) {
	t.Parallel()
	var g garbage
	g.lookOften(100, 1<<20)
	if percent, _ := g.lookOften(1, 8<<20); percent != 50 {
		t.Errorf("%d %% after a burst of 8 MiB with 40 MiB in use, want 50 %%", percent)
	}
}

func TestTheMemoryIsThatOfTheContainerOrOfTheMachine(t *testing.T) {
	t.Parallel()
	const proc, cgroup = "/proc/meminfo", "/sys/fs/cgroup/memory.max"
	const machine = "MemTotal:        8000000 kB\nMemFree: 1 kB\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"a machine":             {map[string]string{proc: machine}, 8000000 << 10},
		"a container":           {map[string]string{proc: machine, cgroup: "1048576\n"}, 1 << 20},
		"one without a limit":   {map[string]string{proc: machine, cgroup: "max\n"}, 8000000 << 10},
		"another system's host": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := memoryOf(func(path string) ([]byte, error) {
				if text, ok := c.files[path]; ok {
					return []byte(text), nil
				}
				return nil, fs.ErrNotExist
			})
			if got != c.want {
				t.Errorf("%d bytes, want %d", got, c.want)
			}
		})
	}
}
