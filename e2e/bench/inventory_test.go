package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// stocked is a bus with the ledger of a large fleet, and a registry in a process of its own.
type stocked struct {
	*world
	inventory
	facts  int
	socket string // of the registry's debug state
}

// measureInventory measures the registry and the CLI on a fleet of many servers with many agents each. It shows its
// figures itself, part by part.
func measureInventory(b *testing.B) []figure {
	w := newStocked(b, asked.servers.or(100_000), asked.agents)
	started := time.Now()
	w.write()
	fmt.Printf("a ledger of %d facts, written in %.0f s\n", w.facts, time.Since(started).Seconds())
	for _, part := range []func() []figure{w.rebuilds, w.queries, w.commands} {
		show(part())
	}
	return nil
}

func newStocked(b *testing.B, servers, agents int) *stocked {
	// No server runs, so beats are expected a day from now.
	w := busOnly(b, rig.Options{Views: true, Beat: 24 * time.Hour})
	return &stocked{
		world: w, inventory: inventory{asked.scaled(servers), agents}, socket: filepath.Join(w.Dir, "registry.socket"),
	}
}

// write writes the ledger.
func (w *stocked) write() {
	conn := w.anyone()
	check(w.b, conn.WaitStream(w.b.Context(), topology.Ledger))
	nc := w.unlimited(topology.AccountCore)
	to := must(newBatches(nc))(w.b)
	w.fill(&book{b: w.b, to: to, at: time.Now().Add(-24 * time.Hour)})
	w.facts = to.sent
}

func (w *stocked) instances() float64 { return float64(w.servers * w.agents) }

// rebuilds measures the start of a registry from the ledger and from a snapshot, and its memory.
func (w *stocked) rebuilds() []figure {
	empty := w.command("versions", "--client").kb // of a program that holds next to nothing
	fromLedger, cpu := w.timed()
	peak := w.usage()
	check(w.b, w.Services[topology.UserRegistry].Stop())
	fromSnapshot, cpuSnapshot := w.timed()
	live, resident := w.settled()
	kept := must(filepath.Glob(filepath.Join(w.ViewsDir(), topology.UserRegistry, "registry-*.view")))(w.b)
	size := must(os.Stat(kept[0]))(w.b)
	each := func(kb float64) string { return fmt.Sprintf("%.2f", (kb-empty)/w.instances()) }
	return []figure{
		{fmt.Sprintf("registry with %.0f instances, resident KB for each", w.instances()), each(resident),
			fmt.Sprintf("live on the heap: %.2f", live/w.instances()), "", "<= 1.5"},
		{"registry, most resident KB for each while it folds", each(peak.PeakKB), "", "", ""},
		{fmt.Sprintf("registry, start from a ledger of %d facts, s", w.facts),
			fmt.Sprintf("%.1f", fromLedger.Seconds()),
			fmt.Sprintf("%.0f facts/s, %.1f CPU s", float64(w.facts)/fromLedger.Seconds(), cpu.Seconds()), "", ""},
		{"registry, start from a snapshot, s", fmt.Sprintf("%.1f", fromSnapshot.Seconds()),
			fmt.Sprintf("%.0f MB, %.1f CPU s", float64(size.Size())/(1<<20), cpuSnapshot.Seconds()),
			ratio(fromSnapshot.Seconds(), fromLedger.Seconds()), ""},
	}
}

// timed starts the registry, and returns how long it took until it answered, and its processor time.
func (w *stocked) timed() (took, cpu time.Duration) {
	started := time.Now()
	w.serve(topology.UserRegistry, "--debug-socket", w.socket)
	took = time.Since(started)
	return took, w.usage().CPU
}

// usage returns what the registry uses.
func (w *stocked) usage() rig.Usage {
	return must(rig.Uses(w.Services[topology.UserRegistry].Pid()))(w.b)
}

// settled returns what is live on the registry's heap after a collection, and what is resident a minute later, when
// the runtime has returned what it does not need.
func (w *stocked) settled() (liveKB, residentKB float64) {
	must(debug.Get(w.b.Context(), w.socket, "/debug/pprof/heap?gc=1"))(w.b)
	metrics := w.metrics()
	live, _ := metrics["/gc/heap/live:bytes"].(float64)
	check(w.b, rig.Sleep(w.b.Context(), time.Minute))
	return live / 1024, w.usage().ResidentKB
}

// metrics returns the metrics of the registry's runtime, by their names in package runtime/metrics.
func (w *stocked) metrics() map[string]any {
	metrics := map[string]any{}
	check(w.b, json.Unmarshal(must(debug.Get(w.b.Context(), w.socket, "/metrics"))(w.b), &metrics))
	return metrics
}

// garbage is what the registry allocated and how often it collected, since its start.
type garbage struct{ bytes, collections float64 }

func (w *stocked) garbage() (g garbage) {
	metrics := w.metrics()
	g.bytes, _ = metrics["/gc/heap/allocs:bytes"].(float64)
	g.collections, _ = metrics["/gc/cycles/total:gc-cycles"].(float64)
	return g
}

// commanded is what one call of the CLI cost.
type commanded struct {
	took time.Duration
	kb   float64 // most resident
}

// command runs the CLI as the first operator and drops what it prints.
func (w *stocked) command(args ...string) (c commanded) {
	cmd := exec.CommandContext(w.b.Context(), filepath.Join(w.Bin, "garrison"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Dir, "GARRISON_CONTEXT=" + w.ContextFile()}
	cmd.Dir = w.Dir
	started := time.Now()
	run(w.b, cmd)
	c.took = time.Since(started)
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		c.kb = float64(r.Maxrss)
	}
	return c
}

// commandRounds is how often each command runs; one that prints every row runs once where there are many.
const (
	commandRounds = 5
	manyRows      = 100_000
)

// commands measures calls of the CLI: their time and most resident memory, beside a call without a request.
func (w *stocked) commands() []figure {
	for _, name := range topology.Services {
		if name == topology.UserRegistry {
			continue
		}
		w.serve(name)
	}
	aloneTook, aloneMB := w.commandOften(commandRounds, "versions", "--client")
	var out []figure
	whole := commandRounds
	if w.instances() > manyRows {
		whole = 1
	}
	for _, c := range []struct {
		args   string
		rounds int
	}{
		{"instance list --limit 100", commandRounds}, {"instance list --not-at-wanted --limit 100", commandRounds},
		{"instance list --limit 10000 -o jsonl", commandRounds},
		{"instance list --count-by agent,version", commandRounds},
		{"instance list --count-by label.role,version", commandRounds},
		{"explain " + w.name(w.servers/2), commandRounds},
		{"explain " + w.name(w.servers/2) + " " + w.agent(1), commandRounds},
		{"instance list -o jsonl", whole}, {"instance list", whole},
	} {
		args := c.args
		took, mb := w.commandOften(c.rounds, strings.Fields(args)...)
		out = append(out,
			figure{"garrison " + args + ", ms", spread(took, "%.0f"), "versions --client: " + spread(aloneTook, "%.0f"),
				ratio(median(took), median(aloneTook)), ""},
			figure{"garrison " + args + ", most resident MB", spread(mb, "%.0f"),
				"versions --client: " + spread(aloneMB, "%.0f"), ratio(median(mb), median(aloneMB)), ""})
	}
	return out
}

// commandOften returns the milliseconds and the resident megabytes of each of several calls.
func (w *stocked) commandOften(rounds int, args ...string) (took, mb []float64) {
	for range rounds {
		c := w.command(args...)
		took, mb = append(took, c.took.Seconds()*1000), append(mb, c.kb/1024)
	}
	return took, mb
}

// eventServers is how many servers have a ledger of 500,000 facts, with ten agents each.
const eventServers = 9_500

// measureEvents measures how the CLI reads a long ledger: its end, a noun, a time and a server.
func measureEvents(b *testing.B) []figure {
	w := newStocked(b, eventServers, 10)
	w.write()
	fmt.Printf("a ledger of %d facts\n", w.facts)
	w.serve(topology.UserRegistry)
	aloneTook, _ := w.commandOften(commandRounds, "versions", "--client")
	var out []figure
	first, middle := w.server(0), w.server(w.servers/2)
	for _, args := range []string{
		"--limit 20", "--limit 20 --noun task", "--limit 20 --noun application", "--limit 20 --id " + middle,
		"--id " + middle, "--id " + first, "--id " + w.name(w.servers/2),
		"--limit 20 --since " + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
		"--cursor " + fmt.Sprint(w.facts-100),
	} {
		took, _ := w.commandOften(commandRounds, strings.Fields("events -o jsonl "+args)...)
		out = append(out, figure{"garrison events " + args + ", ms", spread(took, "%.0f"),
			"versions --client: " + spread(aloneTook, "%.0f"), ratio(median(took), median(aloneTook)), "<= 100"})
	}
	return out
}
