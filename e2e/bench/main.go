// Command bench measures what Garrison costs, each figure beside a bare limit measured
// in the same run on the same machine; README.md explains each figure.
//
//	bench --bin DIR [--only append,fold,latency,footprint,query,upgrade,image,steps,undo,connect,inventory,events,
//	      fleet]
//	      [--quick] [--servers N,…] [--agents N]
//
// It exits with 0 when everything could be measured, whatever the figures are.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/rungroup"
)

// figure is one line of the result.
type figure struct {
	name  string
	value string
	limit string // the bare limit beside it
	ratio string
	aim   string
}

// measurement measures one thing, and returns its figures.
type measurement struct {
	name string
	run  func(context.Context, settings) ([]figure, error)
}

type settings struct {
	bin   string
	quick bool // a tenth of the work, to try the benchmark itself

	servers serverCounts // the sizes of the fleets; the inventory has the first one
	agents  int          // on each server of the inventory
}

// serverCounts is a list of numbers of servers.
type serverCounts []int

// String implements flag.Value.
func (c *serverCounts) String() string { return fmt.Sprint(*c) }

// Set implements flag.Value.
func (c *serverCounts) Set(list string) error {
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 10 {
			return fmt.Errorf("%q is not a number of at least 10", text)
		}
		*c = append(*c, n)
	}
	return nil
}

// or returns the first number, or another one without any.
func (c serverCounts) or(other int) int {
	if len(c) == 0 {
		return other
	}
	return c[0]
}

// scaled returns n, or a tenth of it.
func (s settings) scaled(n int) int {
	if s.quick {
		return n / 10
	}
	return n
}

var measurements = []measurement{
	{"append", measureAppend}, {"fold", measureFold}, {"latency", measureLatency},
	{"footprint", measureFootprint}, {"query", measureQuery}, {"upgrade", measureUpgrade},
	{"image", measureImage}, {"steps", measureSteps}, {"undo", measureUndo}, {"connect", measureConnect},
	{"inventory", measureInventory}, {"events", measureEvents}, {"fleet", measureFleet},
}

func main() {
	var s settings
	flag.StringVar(&s.bin, "bin", "bin", "`DIRECTORY` with the binaries")
	flag.BoolVar(&s.quick, "quick", false, "do a tenth of the work")
	flag.Var(&s.servers, "servers", "`SERVERS` of the inventory (default 100000) or the fleets (default 1000)")
	flag.IntVar(&s.agents, "agents", 10, "`AGENTS` on each server of the inventory")
	only := flag.String("only", "", "measure only these, a comma-separated `LIST`")
	flag.Parse()
	if s.agents < 2 {
		fmt.Fprintln(os.Stderr, "bench: an inventory needs 2 agents on a server at least")
		os.Exit(2)
	}
	ctx, cancel := rungroup.Signals()
	defer cancel()
	if err := run(ctx, s, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, s settings, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	fmt.Printf("%-52s %-26s %-34s %-7s %s\n", "FIGURE", "MEASURED", "BESIDE", "RATIO", "AIM")
	for _, m := range chosen {
		figures, err := m.run(ctx, s)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		show(figures)
	}
	return nil
}

// show prints figures. A measurement of several long parts calls it after each, so that none is lost with a later one.
func show(figures []figure) {
	for _, f := range figures {
		fmt.Printf("%-52s %-26s %-34s %-7s %s\n", f.name, f.value, f.limit, f.ratio, f.aim)
	}
}

// choose returns the measurements of a comma-separated list, in its order; all without one.
func choose(only string) (chosen []measurement, err error) {
	if only == "" {
		return measurements, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown measurement %q (want some of %s)", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, measurements[i])
	}
	return chosen, nil
}

func names() (out []string) {
	for _, m := range measurements {
		out = append(out, m.name)
	}
	return out
}

// ratio prints ours against the limit.
func ratio(ours, limit float64) string { return fmt.Sprintf("%.2f", ours/limit) }

func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	return v[len(v)/2]
}

// spread prints a median with its least and most.
func spread(values []float64, format string) string {
	return fmt.Sprintf(format+" ["+format+".."+format+"]", median(values), slices.Min(values), slices.Max(values))
}
