package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// stocked is a bus with the ledger of a large fleet, and a registry in a process of its own.
type stocked struct {
	*world
	inventory
	facts  int
	socket string // of the registry's debug state
}

// measureInventory measures the registry and the CLI on a fleet of many servers with many agents each. It shows its
// figures itself, part by part.
func measureInventory(ctx context.Context, s settings) (_ []figure, err error) {
	w, err := newStocked(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	started := time.Now()
	if err := w.write(ctx); err != nil {
		return nil, fmt.Errorf("fill the ledger: %w", err)
	}
	fmt.Printf("a ledger of %d facts, written in %.0f s\n", w.facts, time.Since(started).Seconds())
	for _, part := range []func(context.Context) ([]figure, error){w.rebuilds, w.queries, w.commands} {
		more, err := part(ctx)
		if err != nil {
			return nil, err
		}
		show(more)
	}
	return nil, nil
}

func newStocked(ctx context.Context, s settings) (*stocked, error) {
	dir, err := os.MkdirTemp("", "garrison-bench-")
	if err != nil {
		return nil, err
	}
	// No server runs, so beats are expected a day from now.
	f, err := rig.New(rig.Options{Bin: s.bin, Dir: dir, Apart: true, Views: true, Beat: 24 * time.Hour})
	if err != nil {
		return nil, err
	}
	w := &stocked{world: &world{f}, inventory: inventory{s.scaled(s.servers.or(100_000)), s.agents}}
	w.socket = filepath.Join(dir, "registry.socket")
	if err := w.StartBus(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// write writes the ledger.
func (w *stocked) write(ctx context.Context) error {
	conn, err := w.anyone()
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.WaitStream(ctx, topology.Ledger); err != nil {
		return err
	}
	nc, err := unlimited(w.world, topology.AccountCore)
	if err != nil {
		return err
	}
	defer nc.Close()
	to, err := newBatches(nc)
	if err != nil {
		return err
	}
	err = w.fill(&book{ctx: ctx, to: to, at: time.Now().Add(-24 * time.Hour)})
	w.facts = to.sent
	return err
}

func (w *stocked) instances() float64 { return float64(w.servers * w.agents) }

// rebuilds measures the start of a registry from the ledger and from a snapshot, and its memory.
func (w *stocked) rebuilds(ctx context.Context) ([]figure, error) {
	empty, err := w.emptyKB(ctx)
	if err != nil {
		return nil, err
	}
	fromLedger, cpu, err := w.timed(ctx)
	if err != nil {
		return nil, err
	}
	peak, err := rig.Uses(w.Services[topology.UserRegistry].Pid())
	if err != nil {
		return nil, err
	}
	if err := w.Services[topology.UserRegistry].Stop(); err != nil { // which writes a snapshot
		return nil, err
	}
	fromSnapshot, cpuSnapshot, err := w.timed(ctx)
	if err != nil {
		return nil, err
	}
	live, resident, err := w.settled(ctx)
	if err != nil {
		return nil, err
	}
	size, err := os.Stat(filepath.Join(w.ViewsDir(), topology.UserRegistry, topology.UserRegistry+".view"))
	if err != nil {
		return nil, err
	}
	each := func(kb float64) string { return fmt.Sprintf("%.2f", (kb-empty)/w.instances()) }
	return []figure{
		{fmt.Sprintf("registry with %.0f instances, resident KB for each", w.instances()), each(resident),
			fmt.Sprintf("live on the heap: %.2f", live/w.instances()), "", "<= 1.5"},
		{"registry, most resident KB for each while it folds", each(peak.PeakKB), "", "", ""},
		{fmt.Sprintf("registry, start from a ledger of %d facts, s", w.facts),
			fmt.Sprintf("%.1f", fromLedger.Seconds()),
			fmt.Sprintf("%.0f facts/s, %.1f CPU s", float64(w.facts)/fromLedger.Seconds(), cpu.Seconds()), "", ""},
		{"registry, start from a snapshot, s", fmt.Sprintf("%.1f", fromSnapshot.Seconds()),
			fmt.Sprintf("%.0f MB, %.1f CPU s", float64(size.Size())/(1<<20), cpuSnapshot.Seconds()),
			ratio(fromSnapshot.Seconds(), fromLedger.Seconds()), ""},
	}, nil
}

// emptyKB returns the resident memory of a program that holds next to nothing: the CLI's.
func (w *stocked) emptyKB(ctx context.Context) (float64, error) {
	c, err := w.command(ctx, "versions", "--client")
	return c.kb, err
}

// timed starts the registry, and returns how long it took until it answered, and its processor time.
func (w *stocked) timed(ctx context.Context) (took, cpu time.Duration, err error) {
	started := time.Now()
	if err := w.begin(ctx, topology.UserRegistry, "--debug-socket", w.socket); err != nil {
		return 0, 0, err
	}
	took = time.Since(started)
	u, err := rig.Uses(w.Services[topology.UserRegistry].Pid())
	return took, u.CPU, err
}

// settled returns what is live on the registry's heap after a collection, and what is resident a minute later, when
// the runtime has returned what it does not need.
func (w *stocked) settled(ctx context.Context) (liveKB, residentKB float64, err error) {
	if _, err := debug.Get(ctx, w.socket, "/debug/pprof/heap?gc=1"); err != nil {
		return 0, 0, err
	}
	metrics, err := w.metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	live, _ := metrics["/gc/heap/live:bytes"].(float64)
	if err := rig.Sleep(ctx, time.Minute); err != nil {
		return 0, 0, err
	}
	u, err := rig.Uses(w.Services[topology.UserRegistry].Pid())
	return live / 1024, u.ResidentKB, err
}

// metrics returns the metrics of the registry's runtime, by their names in package runtime/metrics.
func (w *stocked) metrics(ctx context.Context) (map[string]any, error) {
	data, err := debug.Get(ctx, w.socket, "/metrics")
	if err != nil {
		return nil, err
	}
	metrics := map[string]any{}
	return metrics, json.Unmarshal(data, &metrics)
}

// garbage is what the registry allocated and how often it collected, since its start.
type garbage struct{ bytes, collections float64 }

func (w *stocked) garbage(ctx context.Context) (g garbage, err error) {
	metrics, err := w.metrics(ctx)
	g.bytes, _ = metrics["/gc/heap/allocs:bytes"].(float64)
	g.collections, _ = metrics["/gc/cycles/total:gc-cycles"].(float64)
	return g, err
}

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

// eventServers is how many servers have a ledger of 500,000 facts, with ten agents each.
const eventServers = 9_500

// measureEvents measures how the CLI reads a long ledger: its end, a noun, a time and a server.
func measureEvents(ctx context.Context, s settings) (_ []figure, err error) {
	s.servers, s.agents = serverCounts{eventServers}, 10
	w, err := newStocked(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.write(ctx); err != nil {
		return nil, fmt.Errorf("fill the ledger: %w", err)
	}
	fmt.Printf("a ledger of %d facts\n", w.facts)
	if err := w.begin(ctx, topology.UserRegistry); err != nil {
		return nil, err
	}
	aloneTook, _, err := w.commandOften(ctx, commandRounds, "versions", "--client")
	if err != nil {
		return nil, err
	}
	var out []figure
	first, middle := w.server(0), w.server(w.servers/2)
	for _, args := range []string{
		"--limit 20", "--limit 20 --noun task", "--limit 20 --noun application", "--limit 20 --id " + middle,
		"--id " + middle, "--id " + first, "--id " + w.name(w.servers/2),
		"--limit 20 --since " + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
		"--cursor " + fmt.Sprint(w.facts-100),
	} {
		took, _, err := w.commandOften(ctx, commandRounds, strings.Fields("events -o jsonl "+args)...)
		if err != nil {
			return nil, err
		}
		out = append(out, figure{"garrison events " + args + ", ms", spread(took, "%.0f"),
			"versions --client: " + spread(aloneTook, "%.0f"), ratio(median(took), median(aloneTook)), "<= 100"})
	}
	return out, nil
}
