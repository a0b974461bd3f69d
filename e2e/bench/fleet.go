package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/e2e/simulated"
)

const (
	// fleetBeat is the time between two heartbeats of a simulated server: the executor's default.
	fleetBeat = 5 * time.Second
	// idleFor is how long a fleet without work is watched.
	idleFor = 20 * time.Second
	// fleetRounds is how many upgrades are measured at each concurrency.
	fleetRounds = 3
	// fleetWithin bounds each step.
	fleetWithin = 30 * time.Minute
)

// simulatedFleet is a control plane with simulated servers whose tasks take no time.
type simulatedFleet struct {
	*world
	runner  *simulated.Runner
	sim     *simulated.Process
	servers int
	at      int // how many changes came to all servers; it decides the next version
}

// measureFleet measures changes of all servers of fleets of several sizes.
func measureFleet(ctx context.Context, s settings) ([]figure, error) {
	sizes := s.servers
	if len(sizes) == 0 {
		sizes = []int{1000}
	}
	var out []figure
	for _, n := range sizes {
		figures, err := measureFleetOf(ctx, s, s.scaled(n))
		if err != nil {
			return nil, fmt.Errorf("%d servers: %w", n, err)
		}
		out = append(out, figures...)
	}
	return out, nil
}

func measureFleetOf(ctx context.Context, s settings, n int) (_ []figure, err error) {
	bare, err := bareRounds(ctx, s, n)
	if err != nil {
		return nil, fmt.Errorf("bare bus: %w", err)
	}
	f, err := newSimulated(s, n)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.stop(), f.close()) }()
	out, err := f.joins(ctx)
	if err != nil {
		return nil, err
	}
	if err := f.change(ctx); err != nil { // the install
		return nil, err
	}
	for _, c := range concurrencies(n) {
		if err := f.restart(ctx, c); err != nil {
			return nil, err
		}
		runs, err := f.runs(ctx, fleetRounds)
		if err != nil {
			return nil, err
		}
		out = append(out, f.figures(c, runs, bare)...)
	}
	asked, err := f.asks(ctx)
	return append(out, asked...), err
}

// concurrencies returns how many tasks are under way at once in the runs, the most first.
func concurrencies(n int) []int {
	all := []int{n, min(n, 1000), 20}
	return slices.Compact(all)
}

// newSimulated returns a fleet that was not started.
func newSimulated(s settings, n int) (*simulatedFleet, error) {
	dir, err := os.MkdirTemp("", "garrison-bench-")
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(fleet.Options{Bin: s.bin, Dir: dir, Beat: fleetBeat})
	if err != nil {
		return nil, err
	}
	f.Garrisond.AddArgs("--debug-socket", filepath.Join(dir, "garrisond.debug"))
	runner := simulated.New(f, simulated.Options{
		Servers: n, Within: fleetWithin, Flags: []string{"--duration", "1ms"},
	})
	return &simulatedFleet{world: &world{f}, runner: runner, servers: n}, nil
}

// stop ends the simulated servers, which compare the ledger with what they did.
func (f *simulatedFleet) stop() error {
	if f.sim == nil {
		return nil
	}
	_, err := f.sim.Stop(fleetWithin)
	return err
}

// joins measures the empty control plane, the enrolment of all servers, and the idle fleet.
func (f *simulatedFleet) joins(ctx context.Context) ([]figure, error) {
	if err := f.runner.Prepare(ctx); err != nil {
		return nil, err
	}
	cpu, empty, err := f.usage()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if f.sim, err = f.runner.Start(ctx); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, fleetWithin)
	defer cancel()
	if err := f.runner.Online(within); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	joined, _, err := f.usage()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(idleFor):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	idle, kb, err := f.usage()
	return []figure{
		{f.named("join, servers/s"), fmt.Sprintf("%.0f", float64(f.servers)/took),
			fmt.Sprintf("%.2f CPU ms each", (joined-cpu).Seconds()*1000/float64(f.servers)), "", ""},
		{f.named("garrisond idle, % of a core"), fmt.Sprintf("%.1f", (idle-joined).Seconds()*100/idleFor.Seconds()),
			"", "", ""},
		{f.named("garrisond idle, resident MB"), fmt.Sprintf("%.0f", kb/1024),
			fmt.Sprintf("without servers: %.0f", empty/1024), ratio(kb, empty), ""},
	}, err
}

func (f *simulatedFleet) named(text string) string {
	return fmt.Sprintf("%d servers: %s", f.servers, text)
}

// usage returns the processor time and the resident memory of garrisond.
func (f *simulatedFleet) usage() (cpu time.Duration, kb float64, err error) {
	return usage(f.Garrisond.Pid())
}

// change brings the other version to every server and waits until it is there.
func (f *simulatedFleet) change(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, fleetWithin)
	defer cancel()
	version := []string{"1.0.0", "2.0.0"}[f.at%2]
	args := []string{"up", sample.Agent + "@" + version, "--on", "all", "--yes", "--at-once"}
	if f.at == 0 {
		args = []string{"install", sample.Agent + "@" + version, "--on", "all", "--at-once"}
	}
	_, err := f.CLI(ctx, args...)
	f.at++
	return err
}

// restart starts garrisond again with a bound on the tasks that are under way, and waits until every server is back.
func (f *simulatedFleet) restart(ctx context.Context, concurrency int) error {
	if err := f.Garrisond.Stop(); err != nil {
		return err
	}
	f.Garrisond.AddArgs("--concurrency", strconv.Itoa(concurrency))
	if err := f.Start(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, fleetWithin)
	defer cancel()
	if err := f.runner.Online(ctx); err != nil {
		return err
	}
	return f.settle(ctx)
}
