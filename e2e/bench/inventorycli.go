package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// commanded is what one call of the CLI cost.
type commanded struct {
	took time.Duration
	kb   float64 // most resident
}

// command runs the CLI as the first operator and drops what it prints.
func (w *stocked) command(ctx context.Context, args ...string) (c commanded, err error) {
	cmd := exec.CommandContext(ctx, filepath.Join(w.Bin, "garrison"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir, "GARRISON_CONTEXT=" + w.ContextFile()}
	cmd.Dir = w.Dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	started := time.Now()
	if err := cmd.Run(); err != nil {
		return c, fmt.Errorf("garrison %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	c.took = time.Since(started)
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.kb = float64(r.Maxrss)
	}
	return c, nil
}

// commandRounds is how often each command runs; one that prints every row runs once where there are many.
const (
	commandRounds = 5
	manyRows      = 100_000
)

// commands measures calls of the CLI: their time and most resident memory, beside a call without a request.
func (w *stocked) commands(ctx context.Context) ([]figure, error) {
	for _, name := range topology.Services {
		if name == topology.UserRegistry {
			continue
		}
		if err := w.begin(ctx, name); err != nil {
			return nil, err
		}
	}
	aloneTook, aloneMB, err := w.commandOften(ctx, commandRounds, "versions", "--client")
	if err != nil {
		return nil, err
	}
	var out []figure
	whole := commandRounds
	if w.instances() > manyRows {
		whole = 1
	}
	for _, c := range []struct {
		args   string
		rounds int
	}{
		{"instance list --limit 100", commandRounds}, {"instance list --not-at-wanted --limit 100", commandRounds},
		{"instance list --limit 10000 -o jsonl", commandRounds},
		{"instance list --count-by agent,version", commandRounds},
		{"instance list --count-by label.role,version", commandRounds},
		{"explain " + w.name(w.servers/2), commandRounds},
		{"explain " + w.name(w.servers/2) + " " + w.agent(1), commandRounds},
		{"instance list -o jsonl", whole}, {"instance list", whole},
	} {
		args := c.args
		took, mb, err := w.commandOften(ctx, c.rounds, strings.Fields(args)...)
		if err != nil {
			return nil, err
		}
		out = append(out,
			figure{"garrison " + args + ", ms", spread(took, "%.0f"), "versions --client: " + spread(aloneTook, "%.0f"),
				ratio(median(took), median(aloneTook)), ""},
			figure{"garrison " + args + ", most resident MB", spread(mb, "%.0f"),
				"versions --client: " + spread(aloneMB, "%.0f"), ratio(median(mb), median(aloneMB)), ""})
	}
	return out, nil
}

// commandOften returns the milliseconds and the resident megabytes of each of several calls.
func (w *stocked) commandOften(ctx context.Context, rounds int, args ...string) (took, mb []float64, err error) {
	for range rounds {
		c, err := w.command(ctx, args...)
		if err != nil {
			return nil, nil, err
		}
		took, mb = append(took, c.took.Seconds()*1000), append(mb, c.kb/1024)
	}
	return took, mb, nil
}
