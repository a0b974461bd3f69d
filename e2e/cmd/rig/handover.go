package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/garrison-fleet/garrison/e2e/handover"
	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/load"
)

// clients are four hundred quick requests a second, and six slow ones always under way.
var clients = load.Clients{Quick: 8, Slow: 6, Every: 20 * time.Millisecond}

// forEach bounds one upgrade, and the start before the first.
const forEach = 20 * time.Second

// handOver upgrades an agent back and forth while clients send it requests, each on a new connection, and counts the
// refused and the failed ones. With --itself each version opens its socket itself, which shows what is lost without a
// handover.
func handOver(flags *flag.FlagSet) func(context.Context) error {
	bin := binaries(flags)
	upgrades := flags.Int("upgrades", 100, "how `MANY` upgrades")
	var way handover.Way
	flags.StringVar(&way.Takeover, "takeover", "overlap", "how a version replaces the other: overlap or restart")
	flags.BoolVar(&way.Itself, "itself", false, "the agent opens its socket itself, for comparison")
	return func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Duration(*upgrades+1)*forEach)
		defer cancel()
		return rig.Temporary(rig.Options{Bin: *bin}, func(f *rig.Fleet) error { return handed(ctx, f, way, *upgrades) })
	}
}

func handed(ctx context.Context, f *rig.Fleet, way handover.Way, upgrades int) error {
	server, err := start(ctx, f, way)
	if err != nil {
		return err
	}
	began := time.Now()
	count, err := handover.Run(ctx, f, server, upgrades, clients, func(done int) {
		if done%10 == 0 {
			fmt.Printf("%d of %d upgrades\n", done, upgrades)
		}
	})
	report(way, upgrades, time.Since(began), count)
	return errors.Join(err, count.Err())
}

func start(ctx context.Context, f *rig.Fleet, way handover.Way) (*rig.Server, error) {
	if err := f.Start(ctx); err != nil {
		return nil, err
	}
	if _, err := f.CLI(ctx, "agent", "create", "beacon", "--kind", "daemon"); err != nil {
		return nil, err
	}
	if err := handover.Prepare(ctx, f, way); err != nil {
		return nil, err
	}
	return f.AddServer(ctx, "alpha")
}

func report(way handover.Way, upgrades int, took time.Duration, c load.Count) {
	whose := "a socket that is handed over"
	if way.Itself {
		whose = "each version opens its socket itself"
	}
	fmt.Printf("\n%d upgrades (%s, %s) in %.1f s, %d clients\n\n", upgrades, way.Takeover, whose, took.Seconds(),
		clients.Quick+clients.Slow)
	fmt.Printf("  requests  %8d   (a new connection each; %.0f/s)\n", c.Requests, float64(c.Requests)/took.Seconds())
	fmt.Printf("  refused   %8d\n  failed    %8d\n", c.Refused, c.Failed)
	for _, v := range handover.Versions {
		fmt.Printf("  by %-6s %8d\n", v, c.Answers[v])
	}
	fmt.Printf("  longest   %8.0f ms   (a third of a second is what slow requests take)\n",
		float64(c.Longest.Microseconds())/1000)
}
