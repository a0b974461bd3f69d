// Command handover shows that upgrades lose no request: it starts a whole Garrison with
// one server, upgrades an agent back and forth while clients send it requests, each on a
// new connection, and counts the refused and the failed ones.
//
//	handover --bin DIR [--upgrades 100] [--takeover overlap|restart] [--itself]
//
// It exits with 0 when no request was refused or failed. With --itself each version opens
// its socket itself, which shows what is lost without a handover.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/garrison-fleet/garrison/e2e/fleet"
	"github.com/garrison-fleet/garrison/e2e/handover"
	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

// load is four hundred quick requests a second, and six slow ones always under way.
var load = handover.Load{Quick: 8, Slow: 6, Every: 20 * time.Millisecond}

// forEach bounds one upgrade, and the start before the first.
const forEach = 20 * time.Second

func main() {
	bin := flag.String("bin", "bin", "`DIRECTORY` with the binaries")
	upgrades := flag.Int("upgrades", 100, "how `MANY` upgrades")
	var way handover.Way
	flag.StringVar(&way.Takeover, "takeover", "overlap", "how a version replaces the other: overlap or restart")
	flag.BoolVar(&way.Itself, "itself", false, "the agent opens its socket itself, for comparison")
	flag.Parse()
	ctx, cancel := rungroup.Signals()
	defer cancel()
	if err := run(ctx, *bin, way, *upgrades); err != nil {
		fmt.Fprintln(os.Stderr, "handover:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin string, way handover.Way, upgrades int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(upgrades+1)*forEach)
	defer cancel()
	dir, err := os.MkdirTemp("", "g-")
	if err != nil {
		return err
	}
	f, err := fleet.New(fleet.Options{Bin: bin, Dir: dir})
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
	server, err := start(ctx, f, way)
	if err != nil {
		return err
	}
	began := time.Now()
	count, err := handover.Run(ctx, f, server, upgrades, load, func(done int) {
		if done%10 == 0 {
			fmt.Printf("%d of %d upgrades\n", done, upgrades)
		}
	})
	report(way, upgrades, time.Since(began), count)
	return errors.Join(err, count.Err())
}

func start(ctx context.Context, f *fleet.Fleet, way handover.Way) (*fleet.Server, error) {
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

func report(way handover.Way, upgrades int, took time.Duration, c handover.Count) {
	whose := "a socket that is handed over"
	if way.Itself {
		whose = "each version opens its socket itself"
	}
	fmt.Printf("\n%d upgrades (%s, %s) in %.1f s, %d clients\n\n", upgrades, way.Takeover, whose, took.Seconds(),
		load.Quick+load.Slow)
	fmt.Printf("  requests  %8d   (a new connection each; %.0f/s)\n", c.Requests, float64(c.Requests)/took.Seconds())
	fmt.Printf("  refused   %8d\n  failed    %8d\n", c.Refused, c.Failed)
	for _, v := range handover.Versions {
		fmt.Printf("  by %-6s %8d\n", v, c.Answers[v])
	}
	fmt.Printf("  longest   %8.0f ms   (a third of a second is what slow requests take)\n",
		float64(c.Longest.Microseconds())/1000)
}
