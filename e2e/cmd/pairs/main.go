// Command pairs compares what a change of all servers costs two builds of garrisond. Each runs with as many simulated
// servers; they change their servers in turns, so that the load of the machine meets both alike.
//
//	pairs --bins BEFORE,AFTER [--servers 300] [--concurrency N] [--rounds 8] [--profile DIR]
//
// It prints the processor time of a task of each, up to 1.5 s after the last fact, and the ratio of the second to the
// first over two rounds, of which either began one. With one directory it measures that build alone. --profile writes
// the processor profile of the first seconds of each round, and what was allocated since the start.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/sample"
	"github.com/garrison-fleet/garrison/e2e/simulated"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

const (
	// within bounds each step.
	within = 10 * time.Minute
	// rest is how long after its facts a change still costs something.
	rest = 1500 * time.Millisecond
	// factsOfTask is how many facts a change of one server leads to.
	factsOfTask = 6
)

type settings struct {
	bins, profile                string
	servers, concurrency, rounds int
}

func main() {
	var s settings
	flag.StringVar(&s.bins, "bins", "bin,bin", "two `DIRECTORIES` with the programs of a build each, with a comma")
	flag.IntVar(&s.servers, "servers", 300, "how `MANY` simulated servers each has")
	flag.IntVar(&s.concurrency, "concurrency", 0, "tasks under way at once; 0 means all")
	flag.IntVar(&s.rounds, "rounds", 8, "changes of all servers of each")
	flag.StringVar(&s.profile, "profile", "", "`DIRECTORY` for processor profiles of the rounds; none without")
	flag.Parse()
	ctx, cancel := rungroup.Signals()
	defer cancel()
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "pairs:", err)
		os.Exit(1)
	}
}

func (s settings) run(ctx context.Context) (err error) {
	var sides []*side
	defer func() {
		for _, a := range sides {
			err = errors.Join(err, a.close())
		}
	}()
	for bin := range strings.SplitSeq(s.bins, ",") {
		a, e := s.start(ctx, bin)
		if a != nil {
			sides = append(sides, a)
		}
		if e != nil {
			return e
		}
	}
	for i := range s.rounds {
		if err := s.inTurns(ctx, sides, i); err != nil {
			return err
		}
	}
	s.show(sides)
	return nil
}

// inTurns has each side change its servers once.
func (s settings) inTurns(ctx context.Context, sides []*side, i int) error {
	for j := range sides {
		if err := sides[(i+j)%len(sides)].round(ctx, s, i); err != nil {
			return err
		}
	}
	fmt.Printf("round %d:", i+1)
	for _, a := range sides {
		fmt.Printf(" %.2f ms (%.1f s)", a.cpu[i], a.took[i])
	}
	fmt.Println()
	return nil
}

func (s settings) show(sides []*side) {
	for _, a := range sides {
		fmt.Printf("%s: CPU ms a task %s, tasks/s %s\n", a.bin, quartiles(a.cpu), quartiles(rates(a.took, s.servers)))
	}
	if len(sides) == 2 {
		fmt.Printf("ratio of processor time %s, of time %s\n",
			quartiles(ratios(sides[0].cpu, sides[1].cpu)), quartiles(ratios(sides[0].took, sides[1].took)))
	}
}

// side is one build with its servers.
type side struct {
	bin       string
	fleet     *fleet.Fleet
	sim       *simulated.Process
	cpu, took []float64 // ms a task, and seconds, of each round
}

func (s settings) start(ctx context.Context, bin string) (*side, error) {
	dir, err := os.MkdirTemp("", "garrison-pairs-")
	if err != nil {
		return nil, err
	}
	f, err := fleet.New(fleet.Options{Bin: bin, Dir: dir, Beat: 5 * time.Second})
	if err != nil {
		return nil, err
	}
	a := &side{bin: bin, fleet: f}
	concurrency := s.concurrency
	if concurrency == 0 {
		concurrency = s.servers
	}
	f.Garrisond.AddArgs("--concurrency", strconv.Itoa(concurrency), "--debug-socket", a.socket())
	r := simulated.New(f, simulated.Options{Servers: s.servers, Within: within, Flags: []string{"--duration", "1ms"}})
	if err := r.Prepare(ctx); err != nil {
		return a, err
	}
	if a.sim, err = r.Start(ctx); err != nil {
		return a, err
	}
	online, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	if err := r.Online(online); err != nil {
		return a, err
	}
	_, err = f.CLI(ctx, "install", sample.Agent+"@1.0.0", "--on", "all", "--at-once")
	return a, err
}

func (a *side) socket() string { return filepath.Join(a.fleet.Dir, "garrisond.debug") }

func (a *side) close() error {
	var err error
	if a.sim != nil {
		_, err = a.sim.Stop(within)
	}
	return errors.Join(err, a.fleet.Close(), os.RemoveAll(a.fleet.Dir))
}

// round changes all servers once, until the facts of it are there.
func (a *side) round(ctx context.Context, s settings, i int) error {
	end, err := a.fleet.LedgerEnd(ctx)
	if err != nil {
		return err
	}
	profiled := a.profile(ctx, s, i)
	before, began := simulated.ProcessorTime(a.fleet.Garrisond.Pid()), time.Now()
	version := []string{"2.0.0", "1.0.0"}[i%2]
	if _, err := a.fleet.CLI(ctx, "up", sample.Agent+"@"+version, "--on", "all", "--yes", "--at-once"); err != nil {
		return err
	}
	a.took = append(a.took, time.Since(began).Seconds())
	if err := a.grows(ctx, end+uint64(factsOfTask*s.servers)); err != nil {
		return err
	}
	time.Sleep(rest) // what follows the facts: documents, bells, acknowledgements
	used := simulated.ProcessorTime(a.fleet.Garrisond.Pid()) - before
	a.cpu = append(a.cpu, used.Seconds()*1000/float64(s.servers))
	return errors.Join(profiled(), ctx.Err())
}

// grows waits until the ledger has a sequence.
func (a *side) grows(ctx context.Context, to uint64) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		at, err := a.fleet.LedgerEnd(ctx)
		if err == nil && at >= to {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("the ledger is at %d, want %d: %w", at, to, errors.Join(ctx.Err(), err))
		}
	}
}

// profile records a processor profile of garrisond until the result is called.
func (a *side) profile(ctx context.Context, s settings, i int) (end func() error) {
	if s.profile == "" {
		return func() error { return nil }
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		ended <- a.fetch(ctx, "profile?seconds=6", filepath.Join(s.profile, fmt.Sprintf("%s-%d.pprof",
			filepath.Base(filepath.Dir(a.bin)), i)))
	}()
	return func() error {
		defer cancel()
		name := fmt.Sprintf("%s-%d.allocs", filepath.Base(filepath.Dir(a.bin)), i)
		return errors.Join(<-ended, a.fetch(context.WithoutCancel(ctx), "allocs", filepath.Join(s.profile, name)))
	}
}

func (a *side) fetch(ctx context.Context, what, file string) error {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", a.socket())
	}
	c := http.Client{Transport: &http.Transport{DialContext: dial}}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://debug/debug/pprof/"+what, nil)
	if err != nil {
		return err
	}
	r, err := c.Do(q)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	data, err := io.ReadAll(r.Body)
	return errors.Join(err, os.WriteFile(file, data, 0o600))
}

// ratios returns those of two rounds each, of which either side began one.
func ratios(a, b []float64) (out []float64) {
	for i := 0; i+1 < len(a); i += 2 {
		out = append(out, (b[i]+b[i+1])/(a[i]+a[i+1]))
	}
	return out
}

func rates(seconds []float64, n int) (out []float64) {
	for _, s := range seconds {
		out = append(out, float64(n)/s)
	}
	return out
}

// quartiles returns the median with the quartiles.
func quartiles(all []float64) string {
	s := slices.Sorted(slices.Values(all))
	if len(s) == 0 {
		return "–"
	}
	at := func(percent int) float64 { return s[(len(s)-1)*percent/100] }
	return fmt.Sprintf("%.2f (%.2f to %.2f)", at(50), at(25), at(75))
}
