package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
)

// measureUndo upgrades to versions that do not work, kills the bus as soon as the link
// leads to the new version, and measures the time until the old version passes its health check again.
func measureUndo(b *testing.B) []figure {
	bad := []struct {
		what   string
		aim    string
		rounds int
		of     sample.Version
	}{
		{"exits at once", "<= 10", 5, sample.Version{Version: "3.0.0", Misbehave: "exit", Takeover: "restart"}},
		{"exits after it was ready", "<= 10", 5,
			sample.Version{Version: "4.0.0", Misbehave: "exit-later", Takeover: "restart"}},
		{"is never ready", "<= 60", 3, sample.Version{Version: "5.0.0", Misbehave: "never-ready", Takeover: "restart"}},
	}
	old := sample.Version{Version: "1.0.0", Takeover: "restart"} // with every default, as the others
	w, server := oneServer(b, old, bad[0].of, bad[1].of, bad[2].of)
	var out []figure
	for _, v := range bad {
		var took []float64
		for range max(asked.scaled(v.rounds), 1) {
			took = append(took, undone(b, w, server, old.Version, v.of.Version).Seconds())
		}
		out = append(out, figure{fmt.Sprintf("version that %s, no network: until the old one works, s", v.what),
			spread(took, "%.1f") + fmt.Sprintf(" (n=%d)", len(took)), "", "", v.aim})
	}
	return out
}

// undone upgrades to a version that does not work, without the bus from the switch on. It
// returns the time from the switch until the executor knows that the old version works
// again, and starts the bus again.
func undone(b *testing.B, w *world, server *rig.Server, old, version string) time.Duration {
	current := filepath.Join(server.Root, "agents", sample.Agent, "current")
	before := must(os.Readlink(current))(b)
	logged := len(server.Executor.Log())
	cli := exec.CommandContext(b.Context(), filepath.Join(w.Bin, "garrison"), "up", "beacon@"+version, "--on", "all",
		"--yes", "--at-once", "-m", "it failed there before, and is to fail again")
	cli.Env = append(os.Environ(), "GARRISON_CONTEXT="+w.ContextFile())
	var said strings.Builder
	cli.Stderr = &said
	check(b, cli.Start())
	defer func() {
		_ = cli.Process.Kill() // it waits for a bus that is gone
		_ = cli.Wait()
		if b.Failed() {
			b.Log(said.String())
		}
	}()
	switched := changed(b, current, before)
	check(b, w.Garrisond.Kill())
	w.poll("the executor has undone it", func() (bool, error) {
		return changeEnded(server.Executor.Log()[logged:], "STATE_UNDONE")
	})
	took := time.Since(switched)
	if got, err := server.Get(b.Context(), "/"); err != nil || got != old {
		b.Fatalf("it answers %q (%v), want %s", got, err, old)
	}
	if now, err := os.Readlink(current); err != nil || now != before {
		b.Fatalf("the link leads to %s (%v), want %s", now, err, before)
	}
	check(b, w.Start(b.Context()))
	if t := lastTask(b, w, sample.Agent, taskv1.State_STATE_UNDONE); t.GetTo().GetVersion() != version {
		b.Fatalf("the last task is of version %s", t.GetTo().GetVersion())
	}
	return took
}

// changed waits until a link leads elsewhere, and returns when it did. It reads the link
// all the time: a version that exits at once is rolled back within milliseconds.
func changed(b *testing.B, link, from string) time.Time {
	const pause = 200 * time.Microsecond
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && b.Context().Err() == nil; time.Sleep(pause) {
		if to, err := os.Readlink(link); err == nil && to != from {
			return time.Now()
		}
	}
	b.Fatalf("%s still leads to %s", link, from)
	return time.Time{}
}

// changeEnded reports whether a change ended, by the executor's log. An end in another state is an error.
func changeEnded(log, state string) (bool, error) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, "change ended") {
			if !strings.Contains(line, state) {
				return false, fmt.Errorf("want %s: %s", state, line)
			}
			return true, nil
		}
	}
	return false, nil
}
