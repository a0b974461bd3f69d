package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// measureFootprint measures an executor that has one agent running and nothing to do.
func measureFootprint(ctx context.Context, s settings) (_ []figure, err error) {
	w, server, err := oneServer(ctx, s, quick("1.0.0"), quick("2.0.0"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	select { // idle for a while, so that the memory of the change is freed
	case <-time.After(15 * time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	rss, err := memoryKB(server.Executor.Pid(), "VmRSS")
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(filepath.Join(s.bin, "executor"))
	if err != nil {
		return nil, err
	}
	return []figure{
		{"executor, idle with one agent, resident MB", fmt.Sprintf("%.1f", rss/1024), "", "", "<= 25"},
		{"executor, binary, MB", fmt.Sprintf("%.1f", float64(info.Size())/(1<<20)), "", "", ""},
	}, nil
}

// memoryKB reads the resident memory of a process (VmRSS), or its peak (VmHWM).
func memoryKB(pid int, field string) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), field+":")
	var kb float64
	_, err = fmt.Sscan(rest, &kb)
	return kb, err
}
