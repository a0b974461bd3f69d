// Command bench measures what Garrison costs, each figure beside a bare limit measured
// in the same run on the same machine; see README.md for what each means.
//
//	bench --bin DIR [--only append,fold,latency,footprint,query,upgrade,image,steps,undo] [--quick]
//
// It judges nothing and ends with 0 when everything could be measured.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/garrison-fleet/garrison/pkg/lifecycle"
)

// figure is one line of the result.
type figure struct {
	name  string
	value string
	limit string // what it is compared with
	ratio string
	aim   string
}

// measurement measures one thing, and gives its figures.
type measurement struct {
	name string
	run  func(context.Context, settings) ([]figure, error)
}

type settings struct {
	bin   string
	quick bool // a tenth of the work, to try the benchmark itself
}

// scaled gives n, or a tenth of it.
func (s settings) scaled(n int) int {
	if s.quick {
		return n / 10
	}
	return n
}

var measurements = []measurement{
	{"append", measureAppend}, {"fold", measureFold}, {"latency", measureLatency},
	{"footprint", measureFootprint}, {"query", measureQuery}, {"upgrade", measureUpgrade},
	{"image", measureImage}, {"steps", measureSteps}, {"undo", measureUndo},
}

func main() {
	var s settings
	flag.StringVar(&s.bin, "bin", "bin", "`DIRECTORY` with the binaries")
	flag.BoolVar(&s.quick, "quick", false, "do a tenth of the work")
	only := flag.String("only", "", "measure only these, a comma-separated `LIST`")
	flag.Parse()
	ctx, cancel := lifecycle.Signals()
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
		for _, f := range figures {
			fmt.Printf("%-52s %-26s %-34s %-7s %s\n", f.name, f.value, f.limit, f.ratio, f.aim)
		}
	}
	return nil
}

// choose gives the measurements of a comma-separated list, in its order; all without one.
func choose(only string) (chosen []measurement, err error) {
	if only == "" {
		return measurements, nil
	}
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no measurement %q; there are %s", name, strings.Join(names(), ", "))
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
