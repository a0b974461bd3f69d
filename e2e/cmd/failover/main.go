// Command failover measures what the loss of a server of the bus costs a site of three garrisonds under load, beside a
// site of one garrisond, and fails when something was lost, doubled, called offline or read wrong.
//
//	failover --bin DIR [--servers 200] [--rate 5] [--lasts 20s] [--rounds 1]
//	  [--only alone,none,lagging,killed,paused,cut off,two dead]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/failover"
	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

// known are the kinds of losses.
const known = "alone,none,lagging,killed,paused,cut off,two dead"

func main() {
	bin := flag.String("bin", "bin", "`DIRECTORY` with the binaries")
	servers := flag.Int("servers", 200, "how `MANY` simulated servers")
	rate := flag.Float64("rate", 5, "intents a second")
	lasts := flag.Duration("lasts", 20*time.Second, "how long a server of the bus is away")
	rounds := flag.Int("rounds", 1, "how often each loss is measured")
	beat := flag.Duration("beat-interval", 5*time.Second, "between two beats of a server")
	only := flag.String("only", known, "kinds of losses, with commas")
	flag.Parse()
	ctx, cancel := rungroup.Signals()
	defer cancel()
	if *rate <= 0 || *servers < 3 || *rounds < 1 {
		fmt.Fprintln(os.Stderr, "failover: --rate must be positive, --servers at least 3, --rounds at least 1")
		os.Exit(2)
	}
	o := failover.Options{
		Servers: *servers, Every: time.Duration(float64(time.Second) / *rate), Lasts: *lasts, Within: 3 * time.Minute,
		Report: show,
	}
	if err := run(ctx, *bin, *beat, *rounds, strings.Split(*only, ","), o); err != nil {
		fmt.Fprintln(os.Stderr, "failover:", err)
		os.Exit(1)
	}
}

// losses returns the losses of these kinds, without those that this machine cannot do.
func losses(kinds []string) (all []failover.Loss, networks bool, err error) {
	for _, text := range kinds {
		switch k := failover.Kind(strings.TrimSpace(text)); k {
		case failover.Alone, failover.None:
			all = append(all, failover.Loss{Kind: k})
		case failover.Lagging, failover.Killed, failover.Paused, failover.TwoDead:
			all = append(all, failover.Each(k)...)
		case failover.CutOff:
			if err := fleet.CanCutOff(); err != nil {
				fmt.Printf("SKIPPED: cut off: %v\n", err)
				continue
			}
			all, networks = append(all, failover.Each(k)...), true
		default:
			return nil, false, fmt.Errorf("unknown loss %q; want some of %s", text, known)
		}
	}
	return all, networks, nil
}

func run(
	ctx context.Context, bin string, beat time.Duration, rounds int, kinds []string, o failover.Options,
) error {
	once, networks, err := losses(kinds)
	if err != nil {
		return err
	}
	all := slices.Repeat(once, rounds)
	ofCluster := func(l failover.Loss) bool { return l.Kind != failover.Alone }
	const head = "%-12s %-6s %7s %7s %7s %7s %9s %8s %8s %9s %8s %8s %5s %8s %8s %6s %7s %6s\n"
	fmt.Printf(head, "loss", "leader", "intents",
		"gap s", "p50 s", "p99 s", "decided s", "begun ms", "p99 ms", "upgrade s", "settled", "offline", "lost",
		"unheard", "doubled", "reads", "verb s", "failed")
	alone := fleet.Options{Bin: bin, Beat: beat}
	cluster := fleet.Options{Bin: bin, Beat: beat, Cluster: true, Networks: networks}
	for _, f := range []fleet.Options{alone, cluster} {
		o.Losses = slices.DeleteFunc(slices.Clone(all), func(l failover.Loss) bool { return ofCluster(l) != f.Cluster })
		if len(o.Losses) > 0 {
			if err := measure(ctx, f, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure takes the losses of one fleet.
func measure(ctx context.Context, options fleet.Options, o failover.Options) (err error) {
	if options.Dir, err = os.MkdirTemp("", "garrison-failover-"); err != nil {
		return err
	}
	f, err := fleet.New(options)
	if err != nil {
		return err
	}
	rows, err := failover.Run(ctx, f, o)
	for _, t := range failover.Totals(rows) {
		show(t)
	}
	if err = errors.Join(err, f.Close(), failover.Judge(rows)); err != nil {
		return fmt.Errorf("%w\n(logs and data are in %s)", err, options.Dir)
	}
	return os.RemoveAll(options.Dir)
}

func show(r failover.Row) {
	leader := ""
	if r.Leader {
		leader = "yes"
	}
	of := func(waits []time.Duration, percent int) float64 { return failover.Percentile(waits, percent).Seconds() }
	const line = "%-12s %-6s %7d %7.2f %7.3f %7.2f %9.2f %8.0f %8.0f %9.1f %8.1f %8d %5d %8d %8d %6d %7.1f %6d\n"
	fmt.Printf(line, r.Name(), leader,
		r.Intents, r.Gap.Seconds(), of(r.Waited, 50), of(r.Waited, 99), r.Decided.Seconds(), of(r.Started, 50)*1000,
		of(r.Started, 99)*1000, r.Upgrade.Seconds(), r.Settled.Seconds(), r.Wrong.Offline, r.Wrong.Lost,
		r.Wrong.Unheard, r.Wrong.Doubled, r.Wrong.Reads, r.Verb.Seconds(), r.Wrong.Verbs)
}
