package main

import (
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/rs/zerolog"
)

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
