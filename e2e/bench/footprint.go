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
	w, err := newWorld(ctx, s, false)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := twoVersions(ctx, w); err != nil {
		return nil, err
	}
	server, err := w.AddServer(ctx, "alpha")
	if err != nil {
		return nil, err
	}
	if err := waitOnline(ctx, w, 1); err != nil {
		return nil, err
	}
	if _, err := w.CLI(ctx, "install", "beacon@1.0.0", "--on", "alpha"); err != nil {
		return nil, err
	}
	select { // idle for a while, so that what the change needed is given back
	case <-time.After(15 * time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	rss, err := residentKB(server.Executor.Pid())
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

// residentKB reads how much of a process is in memory.
func residentKB(pid int) (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kb float64
	_, err = fmt.Sscan(rest, &kb)
	return kb, err
}
