package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/failover"
	"github.com/garrison-fleet/garrison/e2e/rig"
)

// known are the kinds of losses.
const known = "alone,none,lagging,killed,paused,cut off,two dead"

// losses measures what the loss of a server of the bus costs a site of three garrisonds under load, beside a site of
// one garrisond, and fails when something was lost, doubled, called offline or read wrong.
func losses(flags *flag.FlagSet) func(context.Context) error {
	bin := binaries(flags)
	servers := flags.Int("servers", 200, "how `MANY` simulated servers")
	rate := flags.Float64("rate", 5, "intents a second")
	lasts := flags.Duration("lasts", 20*time.Second, "how long a server of the bus is away")
	rounds := flags.Int("rounds", 1, "how often each loss is measured")
	beat := flags.Duration("beat-interval", 5*time.Second, "between two beats of a server")
	only := flags.String("only", known, "kinds of losses, with commas")
	return func(ctx context.Context) error {
		if *rate <= 0 || *servers < 3 || *rounds < 1 {
			return errors.New("--rate must be positive, --servers at least 3, --rounds at least 1")
		}
		return loseAll(ctx, *bin, *beat, *rounds, strings.Split(*only, ","), failover.Options{
			Servers: *servers, Every: time.Duration(float64(time.Second) / *rate), Lasts: *lasts,
			Within: 3 * time.Minute, Report: showLoss,
		})
	}
}

// lossesOf returns the losses of these kinds, without those that this machine cannot do.
func lossesOf(kinds []string) (all []failover.Loss, networks bool, err error) {
	for _, text := range kinds {
		switch k := failover.Kind(strings.TrimSpace(text)); k {
		case failover.Alone, failover.None:
			all = append(all, failover.Loss{Kind: k})
		case failover.Lagging, failover.Killed, failover.Paused, failover.TwoDead:
			all = append(all, failover.Each(k)...)
		case failover.CutOff:
			if err := rig.CanCutOff(); err != nil {
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

func loseAll(
	ctx context.Context, bin string, beat time.Duration, rounds int, kinds []string, o failover.Options,
) error {
	once, networks, err := lossesOf(kinds)
	if err != nil {
		return err
	}
	all := slices.Repeat(once, rounds)
	ofCluster := func(l failover.Loss) bool { return l.Kind != failover.Alone }
	const head = "%-12s %-6s %7s %7s %7s %7s %9s %8s %8s %9s %8s %8s %5s %8s %8s %6s %7s %6s\n"
	fmt.Printf(head, "loss", "leader", "intents",
		"gap s", "p50 s", "p99 s", "decided s", "ended ms", "p99 ms", "upgrade s", "settled", "offline", "lost",
		"unheard", "doubled", "reads", "verb s", "failed")
	alone := rig.Options{Bin: bin, Beat: beat}
	cluster := rig.Options{Bin: bin, Beat: beat, Cluster: true, Networks: networks}
	for _, f := range []rig.Options{alone, cluster} {
		o.Losses = slices.DeleteFunc(slices.Clone(all), func(l failover.Loss) bool { return ofCluster(l) != f.Cluster })
		if len(o.Losses) > 0 {
			if err := measureLosses(ctx, f, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// measureLosses takes the losses of one fleet.
func measureLosses(ctx context.Context, options rig.Options, o failover.Options) error {
	return rig.Temporary(options, func(f *rig.Fleet) error {
		rows, err := failover.Run(ctx, f, o)
		for _, t := range failover.Totals(rows) {
			showLoss(t)
		}
		return errors.Join(err, failover.Judge(rows))
	})
}

func showLoss(r failover.Row) {
	leader := ""
	if r.Leader {
		leader = "yes"
	}
	of := func(waits []time.Duration, percent int) float64 { return failover.Percentile(waits, percent).Seconds() }
	const line = "%-12s %-6s %7d %7.2f %7.3f %7.2f %9.2f %8.0f %8.0f %9.1f %8.1f %8d %5d %8d %8d %6d %7.1f %6d\n"
	fmt.Printf(line, r.Name(), leader,
		r.Intents, r.Gap.Seconds(), of(r.Waited, 50), of(r.Waited, 99), r.Decided.Seconds(), of(r.Ended, 50)*1000,
		of(r.Ended, 99)*1000, r.Upgrade.Seconds(), r.Settled.Seconds(), r.Wrong.Offline, r.Wrong.Lost,
		r.Wrong.Unheard, r.Wrong.Doubled, r.Wrong.Reads, r.Verb.Seconds(), r.Wrong.Verbs)
}
