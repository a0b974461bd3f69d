package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/simulated"
	"github.com/garrison-fleet/garrison/pkg/debug"
)

const (
	// pairsWithin bounds each step.
	pairsWithin = 10 * time.Minute
	// rest is how long after its facts a change still costs something.
	rest = 1500 * time.Millisecond
	// factsOfTask is how many facts a short change of one server leads to at least.
	factsOfTask = 3
)

// paired are the flags of pairs.
type paired struct {
	bins, profile                string
	servers, concurrency, rounds int
}

// pairs compares what a change of all servers costs two builds of garrisond. Each runs with as many simulated servers;
// they change their servers in turns, so that the load of the machine meets both alike. It prints the processor time of
// a task of each, up to 1.5 s after the last fact, and the ratio of the second to the first over two rounds, of which
// either began one. With one directory it measures that build alone.
func pairs(flags *flag.FlagSet) func(context.Context) error {
	var s paired
	flags.StringVar(&s.bins, "bins", "bin,bin", "two `DIRECTORIES` with the programs of a build each, with a comma")
	flags.IntVar(&s.servers, "servers", 300, "how `MANY` simulated servers each has")
	flags.IntVar(&s.concurrency, "concurrency", 0, "tasks under way at once; 0 means all")
	flags.IntVar(&s.rounds, "rounds", 8, "changes of all servers of each")
	flags.StringVar(&s.profile, "profile", "",
		"`DIRECTORY` for the processor profile of the first seconds of each round, and what was allocated until then")
	return func(ctx context.Context) error { return s.run(ctx, strings.Split(s.bins, ","), nil) }
}

// run starts a side for each build that is left, and then changes their servers in turns.
func (s paired) run(ctx context.Context, bins []string, sides []*side) error {
	if len(bins) > 0 {
		return rig.Temporary(rig.Options{Bin: bins[0], Beat: 5 * time.Second}, func(f *rig.Fleet) (err error) {
			a, err := s.start(ctx, bins[0], f)
			defer func() {
				_, e := a.runner.Stop()
				err = errors.Join(err, e)
			}()
			if err != nil {
				return err
			}
			return s.run(ctx, bins[1:], append(sides, a))
		})
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
func (s paired) inTurns(ctx context.Context, sides []*side, i int) error {
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

func (s paired) show(sides []*side) {
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
	fleet     *rig.Fleet
	runner    *simulated.Runner
	cpu, took []float64 // ms a task, and seconds, of each round
}

func (s paired) start(ctx context.Context, bin string, f *rig.Fleet) (*side, error) {
	a := &side{bin: bin, fleet: f, runner: simulated.New(f, simulated.Options{
		Servers: s.servers, Within: pairsWithin, Flags: []string{"--duration", "1ms"},
	})}
	concurrency := cmp.Or(s.concurrency, s.servers)
	f.Garrisond.AddArgs("--concurrency", strconv.Itoa(concurrency), "--debug-socket", a.socket())
	return a, a.runner.Installed(ctx)
}

func (a *side) socket() string { return filepath.Join(a.fleet.Dir, "garrisond.debug") }

// round changes all servers once, until the facts of it are there.
func (a *side) round(ctx context.Context, s paired, i int) error {
	end, err := a.fleet.LedgerEnd(ctx)
	if err != nil {
		return err
	}
	profiled := a.profile(ctx, s, i)
	before, err := rig.Uses(a.fleet.Garrisond.Pid())
	if err != nil {
		return err
	}
	began := time.Now()
	if err := a.runner.Change(ctx); err != nil {
		return err
	}
	a.took = append(a.took, time.Since(began).Seconds())
	within, cancel := context.WithTimeout(ctx, pairsWithin)
	defer cancel()
	if err := a.runner.Grows(within, end+uint64(factsOfTask*s.servers)); err != nil {
		return err
	}
	if err := rig.Sleep(ctx, rest); err != nil { // what follows the facts: documents, bells, acknowledgements
		return err
	}
	after, err := rig.Uses(a.fleet.Garrisond.Pid())
	a.cpu = append(a.cpu, (after.CPU-before.CPU).Seconds()*1000/float64(s.servers))
	return errors.Join(err, profiled())
}

// profile records a processor profile of garrisond until the result is called.
func (a *side) profile(ctx context.Context, s paired, i int) (end func() error) {
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
	data, err := debug.Get(ctx, a.socket(), "/debug/pprof/"+what)
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
