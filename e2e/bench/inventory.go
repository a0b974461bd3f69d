package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
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
	f, err := fleet.New(fleet.Options{Bin: s.bin, Dir: dir, Apart: true, Views: true, Beat: 24 * time.Hour})
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
	pid := w.Services[topology.UserRegistry].Pid()
	peak, err := memoryKB(pid, "VmHWM")
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
		{"registry, most resident KB for each while it folds", each(peak), "", "", ""},
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
	cpu, _, err = usage(w.Services[topology.UserRegistry].Pid())
	return took, cpu, err
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
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
		return 0, 0, ctx.Err()
	}
	residentKB, err = memoryKB(w.Services[topology.UserRegistry].Pid(), "VmRSS")
	return live / 1024, residentKB, err
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
