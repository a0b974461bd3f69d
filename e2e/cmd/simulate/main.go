// Command simulate starts a whole Garrison in a temporary directory with a fleet of simulated servers, installs an
// agent on all of them, upgrades it, and prints how long that took and what processor time garrisond used.
//
//	simulate --bin DIR [--servers 100] [--fault 0.05] [--seed 1] [--kill] [--duration 200ms] [--concurrency 20]
//
// It exits with 0 when the ledger agrees with what the servers did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/simulated"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

// stepWithin bounds each step.
const stepWithin = 30 * time.Minute

func main() {
	bin := flag.String("bin", "bin", "`DIRECTORY` with the binaries")
	servers := flag.Int("servers", 100, "how `MANY` servers")
	share := flag.Float64("fault", 0, "share of servers that fail, and the same share that are slow, flap or mislead")
	seed := flag.Uint64("seed", 1, "decides faults and durations")
	kill := flag.Bool("kill", false, "kill garrisond in the middle of the upgrade")
	duration := flag.Duration("duration", 200*time.Millisecond, "mean duration of a task")
	concurrency := flag.Int("concurrency", 0, "how many tasks are under way at once; 0 means the default of garrisond")
	flag.Parse()
	ctx, cancel := rungroup.Signals()
	defer cancel()
	if err := run(ctx, *bin, *concurrency, simulated.Options{
		Servers: *servers, Within: stepWithin, Faulty: *share > 0, Kill: *kill,
		Flags: append(faults(*share, *seed), "--duration", duration.String()),
	}); err != nil {
		fmt.Fprintln(os.Stderr, "simulate:", err)
		os.Exit(1)
	}
}

// faults returns the flags of garrison-sim for a share of each fault.
func faults(share float64, seed uint64) []string {
	args := []string{"--seed", strconv.FormatUint(seed, 10)}
	if share == 0 {
		return args
	}
	for _, name := range []string{"--failing", "--slow", "--flapping", "--misleading"} {
		args = append(args, name, strconv.FormatFloat(share, 'g', -1, 64))
	}
	return args
}

func run(ctx context.Context, bin string, concurrency int, o simulated.Options) (err error) {
	dir, err := os.MkdirTemp("", "garrison-sim-")
	if err != nil {
		return err
	}
	f, err := fleet.New(fleet.Options{Bin: bin, Dir: dir, Beat: 5 * time.Second})
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, f.Close()); err != nil {
			err = fmt.Errorf("%w\n(everything is stopped; logs and data are in %s)", err, dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	if concurrency > 0 {
		f.Garrisond.AddArgs("--concurrency", strconv.Itoa(concurrency))
	}
	steps, s, err := simulated.Run(ctx, f, o)
	fmt.Printf("%-10s %10s %22s\n", "step", "seconds", "garrisond CPU seconds")
	for _, step := range steps {
		fmt.Printf("%-10s %10.2f %22.2f\n", step.Name, step.Took.Seconds(), step.CPU.Seconds())
	}
	fmt.Printf("\n%d servers %v, %d tasks begun, %d succeeded, %d undone\nledger: %d tasks, %d compared, %d open, "+
		"%d findings\n", s.Servers, s.Faults, s.Begun, s.Succeeded, s.Undone, s.Tasks, s.Compared, s.Open,
		len(s.Findings))
	if r := s.Recovery; o.Kill {
		fmt.Printf("killed: services ready after %.2f s, upgrade ended after %.2f s, %d false offline\n",
			r.Ready.Seconds(), r.Ended.Seconds(), r.Offline)
	}
	return err
}
