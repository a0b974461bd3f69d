// Package bench measures what Garrison costs, each figure beside a bare limit measured
// in the same run on the same machine; README.md explains each figure. Its benchmarks fail
// when something cannot be measured, whatever the figures are.
package bench

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/e2e/rig"
)

// figure is one line of the result.
type figure struct {
	name  string
	value string
	limit string // the bare limit beside it
	ratio string
	aim   string
}

type settings struct {
	quick  bool // a tenth of the work, to try the benchmark itself
	record bool // write the ratios into recordedFile

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

// asked are the flags.
var asked settings

// measured is how many benchmarks ran, and shown is their figures.
var (
	measured int
	shown    []figure
)

// TestMain fails when no benchmark has the name that make bench was given.
func TestMain(m *testing.M) {
	flag.BoolVar(&asked.quick, "quick", false, "do a tenth of the work")
	flag.BoolVar(&asked.record, "record", false, "record the ratios instead of comparing them with the recorded ones")
	flag.Var(&asked.servers, "servers", "`SERVERS` of the inventory (default 100000) or the fleets (default 1000)")
	flag.IntVar(&asked.agents, "agents", 10, "`AGENTS` on each server of the inventory")
	flag.Parse()
	only := flag.Lookup("test.bench").Value.String()
	if only != "" {
		show([]figure{{"FIGURE", "MEASURED", "BESIDE", "RATIO", "AIM"}})
	}
	code := m.Run()
	switch {
	case asked.agents < 2:
		fmt.Fprintln(os.Stderr, "bench: an inventory needs 2 agents on a server at least")
		code = 2
	case only != "" && measured == 0 && code == 0:
		fmt.Fprintf(os.Stderr, "bench: no benchmark matches %s\n", only)
		code = 1
	case only != "" && !asked.quick:
		code = max(code, judge())
	}
	os.Exit(code)
}

// judge names the figures that got worse since they were recorded, and returns the exit code.
func judge() (code int) {
	worse, err := ratchet(shown, asked.record)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	for _, w := range worse {
		fmt.Println("worse:", w)
		code = 1
	}
	return code
}

func BenchmarkFootprint(b *testing.B) { measure(b, measureFootprint) }
func BenchmarkUpgrade(b *testing.B)   { measure(b, measureUpgrade) }
func BenchmarkImage(b *testing.B)     { measure(b, measureImage) }
func BenchmarkSteps(b *testing.B)     { measure(b, measureSteps) }
func BenchmarkUndo(b *testing.B)      { measure(b, measureUndo) }
func BenchmarkInventory(b *testing.B) { measure(b, measureInventory) }
func BenchmarkEvents(b *testing.B)    { measure(b, measureEvents) }
func BenchmarkFleet(b *testing.B)     { measure(b, measureFleet) }
func BenchmarkIdle(b *testing.B)      { measure(b, measureIdle) }

// measure runs a measurement that has rounds of its own.
func measure(b *testing.B, of func(*testing.B) []figure) {
	report(b, of(b)...)
}

// programs finds the programs under test, or builds them.
func programs(b *testing.B) string {
	measured++
	dir, remove, err := rig.Programs(b.Context())
	check(b, err)
	b.Cleanup(remove)
	return dir
}

// report prints figures in place of the time of the benchmark.
func report(b *testing.B, figures ...figure) {
	show(figures)
	b.ReportMetric(0, "ns/op")
}

// rounds is how often a figure and its bare limit are measured, in turns.
const rounds = 3

func check(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// run runs a program, whose output an error shows.
func run(b *testing.B, cmd *exec.Cmd) {
	b.Helper()
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		b.Fatalf("%v: %v: %s", cmd.Args, err, out.Bytes()[max(0, out.Len()-2000):])
	}
}

// must ends a benchmark on an error.
func must[T any](v T, err error) func(*testing.B) T {
	return func(b *testing.B) T {
		b.Helper()
		check(b, err)
		return v
	}
}

// show prints figures. A measurement of several long parts calls it after each, so that none is lost with a later one.
func show(figures []figure) {
	shown = append(shown, figures...)
	for _, f := range figures {
		fmt.Printf("%-52s %-26s %-34s %-7s %s\n", f.name, f.value, f.limit, f.ratio, f.aim)
	}
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
