package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/simulated"
	"github.com/garrison-fleet/garrison/pkg/client"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
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
	servers int
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
	if err := f.runner.Change(ctx); err != nil { // the install
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
	f, err := rig.New(rig.Options{Bin: s.bin, Dir: dir, Beat: fleetBeat})
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
	_, err := f.runner.Stop()
	return err
}

// joins measures the empty control plane, the enrolment of all servers, and the idle fleet.
func (f *simulatedFleet) joins(ctx context.Context) ([]figure, error) {
	if err := f.runner.Prepare(ctx); err != nil {
		return nil, err
	}
	empty, err := f.usage()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := f.runner.Simulate(ctx); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, fleetWithin)
	defer cancel()
	if err := f.runner.Online(within); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds()
	joined, err := f.usage()
	if err != nil {
		return nil, err
	}
	if err := rig.Sleep(ctx, idleFor); err != nil {
		return nil, err
	}
	idle, err := f.usage()
	return []figure{
		{f.named("join, servers/s"), fmt.Sprintf("%.0f", float64(f.servers)/took),
			fmt.Sprintf("%.2f CPU ms each", (joined.CPU-empty.CPU).Seconds()*1000/float64(f.servers)), "", ""},
		{f.named("garrisond idle, % of a core"),
			fmt.Sprintf("%.1f", (idle.CPU-joined.CPU).Seconds()*100/idleFor.Seconds()), "", "", ""},
		{f.named("garrisond idle, resident MB"), fmt.Sprintf("%.0f", idle.ResidentKB/1024),
			fmt.Sprintf("without servers: %.0f", empty.ResidentKB/1024),
			ratio(idle.ResidentKB, empty.ResidentKB), ""},
	}, err
}

func (f *simulatedFleet) named(text string) string {
	return fmt.Sprintf("%d servers: %s", f.servers, text)
}

// usage returns what garrisond uses.
func (f *simulatedFleet) usage() (rig.Usage, error) { return rig.Uses(f.Garrisond.Pid()) }

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

// asks measures the registry and the CLI while all servers change.
func (f *simulatedFleet) asks(ctx context.Context) ([]figure, error) {
	if err := f.restart(ctx, f.servers); err != nil {
		return nil, err
	}
	quiet, err := f.listUntil(ctx, func() error { return rig.Sleep(ctx, 5*time.Second) })
	if err != nil {
		return nil, err
	}
	busy, err := f.listUntil(ctx, func() error { return f.runner.Change(ctx) })
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := f.CLI(ctx, "events", "--limit", "20"); err != nil {
		return nil, err
	}
	took := time.Since(began).Seconds() * 1000
	began = time.Now()
	if _, err := f.CLI(ctx, "versions", "--client"); err != nil {
		return nil, err
	}
	alone := time.Since(began).Seconds() * 1000
	return []figure{
		{f.named("a page of 1,000 servers during up, p99 ms"), fmt.Sprintf("%.0f (n=%d)", at(busy, 99), len(busy)),
			fmt.Sprintf("idle: %.0f (n=%d)", at(quiet, 99), len(quiet)), ratio(at(busy, 99), at(quiet, 99)), ""},
		{f.named("garrison events --limit 20, ms"), fmt.Sprintf("%.0f", took),
			fmt.Sprintf("versions --client: %.0f", alone), ratio(took, alone), ""},
	}, nil
}

// listUntil asks for a page of servers ten times a second until work has ended, and returns the sorted milliseconds.
func (f *simulatedFleet) listUntil(ctx context.Context, work func() error) (took []float64, err error) {
	c, err := f.Client(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = work(); close(done) })
	for {
		began := time.Now()
		_, err := client.Call[*registryv1.ListServersResponse](ctx, c,
			&registryv1.ListServersRequest{Page: &apiv1.Page{Limit: 1000}})
		if err != nil {
			wg.Wait()
			return nil, errors.Join(err, failed)
		}
		took = append(took, time.Since(began).Seconds()*1000)
		select {
		case <-done:
			slices.Sort(took)
			return took, failed
		case <-time.After(100 * time.Millisecond):
		}
	}
}
