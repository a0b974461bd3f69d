package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
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
	// restFor is how long a fleet is left alone after it joined: its servers learn how often to beat, and access
	// compares its count of connections.
	restFor = 75 * time.Second
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
func measureFleet(b *testing.B) []figure { return ofSizes(b, measureFleetOf) }

// measureIdle measures fleets of several sizes that join and then have nothing to do.
func measureIdle(b *testing.B) []figure {
	return ofSizes(b, func(b *testing.B, n int) []figure {
		f := newSimulated(b, n)
		defer f.end()
		defer f.stop()
		return f.joins()
	})
}

func ofSizes(b *testing.B, measure func(b *testing.B, n int) []figure) (out []figure) {
	sizes := asked.servers
	if len(sizes) == 0 {
		sizes = []int{1000}
	}
	for _, n := range sizes {
		out = append(out, measure(b, asked.scaled(n))...)
	}
	return out
}

func measureFleetOf(b *testing.B, n int) []figure {
	bare := bareRounds(b, n)
	f := newSimulated(b, n)
	defer f.end()
	defer f.stop()
	out := f.joins()
	check(b, f.runner.Change(b.Context()))
	for _, c := range concurrencies(n) {
		f.restart(c)
		out = append(out, f.figures(c, f.runs(fleetRounds), bare)...)
	}
	return append(out, f.asks()...)
}

// concurrencies returns how many tasks are under way at once in the runs, the most first.
func concurrencies(n int) []int {
	all := []int{n, min(n, 1000), 20}
	return slices.Compact(all)
}

// newSimulated returns a fleet that was not started.
func newSimulated(b *testing.B, n int) *simulatedFleet {
	w := newWorld(b, rig.Options{Beat: fleetBeat})
	w.Garrisond.AddArgs("--debug-socket", filepath.Join(w.Dir, "garrisond.debug"))
	runner := simulated.New(w.Fleet, simulated.Options{
		Servers: n, Within: fleetWithin, Flags: []string{"--duration", "1ms"},
	})
	return &simulatedFleet{world: w, runner: runner, servers: n}
}

// stop ends the simulated servers, which compare the ledger with what they did.
func (f *simulatedFleet) stop() { must(f.runner.Stop())(f.b) }

// joins measures the empty control plane, the enrolment of all servers, and the idle fleet.
func (f *simulatedFleet) joins() []figure {
	check(f.b, f.runner.Prepare(f.b.Context()))
	empty := f.usage()
	began := time.Now()
	check(f.b, f.runner.Simulate(f.b.Context()))
	within, cancel := context.WithTimeout(f.b.Context(), fleetWithin)
	defer cancel()
	check(f.b, f.runner.Online(within))
	took := time.Since(began).Seconds()
	joined := f.usage()
	check(f.b, rig.Sleep(f.b.Context(), restFor))
	rested := f.usage()
	check(f.b, rig.Sleep(f.b.Context(), idleFor))
	idle := f.usage()
	return []figure{
		{f.named("join, servers/s"), fmt.Sprintf("%.0f", float64(f.servers)/took),
			fmt.Sprintf("%.2f CPU ms each", (joined.CPU-empty.CPU).Seconds()*1000/float64(f.servers)), "", ""},
		{f.named("garrisond idle, % of a core"),
			fmt.Sprintf("%.1f", (idle.CPU-rested.CPU).Seconds()*100/idleFor.Seconds()), "", "", ""},
		{f.named("garrisond idle, resident MB"), fmt.Sprintf("%.0f", idle.ResidentKB/1024),
			fmt.Sprintf("without servers: %.0f", empty.ResidentKB/1024),
			ratio(idle.ResidentKB, empty.ResidentKB), ""},
	}
}

func (f *simulatedFleet) named(text string) string {
	return fmt.Sprintf("%d servers: %s", f.servers, text)
}

// usage returns what garrisond uses.
func (f *simulatedFleet) usage() rig.Usage { return must(rig.Uses(f.Garrisond.Pid()))(f.b) }

// restart starts garrisond again with a bound on the tasks that are under way, and waits until every server is back.
func (f *simulatedFleet) restart(concurrency int) {
	check(f.b, f.Garrisond.Stop())
	f.Garrisond.AddArgs("--concurrency", strconv.Itoa(concurrency))
	check(f.b, f.Start(f.b.Context()))
	ctx, cancel := context.WithTimeout(f.b.Context(), fleetWithin)
	defer cancel()
	check(f.b, f.runner.Online(ctx))
	f.settle()
}

// asks measures the registry and the CLI while all servers change.
func (f *simulatedFleet) asks() []figure {
	f.restart(f.servers)
	quiet := f.listUntil(func() error { return rig.Sleep(f.b.Context(), 5*time.Second) })
	busy := f.listUntil(func() error { return f.runner.Change(f.b.Context()) })
	began := time.Now()
	f.ok("events", "--limit", "20")
	took := time.Since(began).Seconds() * 1000
	began = time.Now()
	f.ok("versions", "--client")
	alone := time.Since(began).Seconds() * 1000
	return []figure{
		{f.named("a page of 1,000 servers during up, p99 ms"), fmt.Sprintf("%.0f (n=%d)", at(busy, 99), len(busy)),
			fmt.Sprintf("idle: %.0f (n=%d)", at(quiet, 99), len(quiet)), ratio(at(busy, 99), at(quiet, 99)), ""},
		{f.named("garrison events --limit 20, ms"), fmt.Sprintf("%.0f", took),
			fmt.Sprintf("versions --client: %.0f", alone), ratio(took, alone), ""},
	}
}

// listUntil asks for a page of servers ten times a second until work has ended, and returns the sorted milliseconds.
func (f *simulatedFleet) listUntil(work func() error) (took []float64) {
	c := f.client()
	done := make(chan struct{})
	var wg sync.WaitGroup
	var failed error
	wg.Go(func() { failed = work(); close(done) })
	for {
		began := time.Now()
		_, err := client.Call[*registryv1.ListServersResponse](f.b.Context(), c,
			&registryv1.ListServersRequest{Page: &apiv1.Page{Limit: 1000}})
		if err != nil {
			wg.Wait()
			f.b.Fatal(errors.Join(err, failed))
		}
		took = append(took, time.Since(began).Seconds()*1000)
		select {
		case <-done:
			check(f.b, failed)
			slices.Sort(took)
			return took
		case <-time.After(100 * time.Millisecond):
		}
	}
}
