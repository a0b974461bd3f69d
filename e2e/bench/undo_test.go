package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/sample"
)

// measureUndo upgrades to versions that do not work, kills the bus as soon as the link
// leads to the new version, and measures the time until the old version passes its health check again.
func measureUndo(ctx context.Context, s settings) (_ []figure, err error) {
	bad := []struct {
		what   string
		aim    string
		rounds int
		of     sample.Version
	}{
		{"exits at once", "<= 10", 5, sample.Version{Version: "3.0.0", Misbehave: "exit", Takeover: "restart"}},
		{
			"exits after it was ready",
			"<= 10",
			5,
			sample.Version{Version: "4.0.0", Misbehave: "exit-later", Takeover: "restart"},
		},
		{"is never ready", "<= 60", 3, sample.Version{Version: "5.0.0", Misbehave: "never-ready", Takeover: "restart"}},
	}
	old := sample.Version{Version: "1.0.0", Takeover: "restart"} // with every default, as the others
	w, server, err := oneServer(ctx, s, old, bad[0].of, bad[1].of, bad[2].of)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	var out []figure
	for _, b := range bad {
		var took []float64
		for range max(s.scaled(b.rounds), 1) {
			t, err := undone(ctx, w, server, old.Version, b.of.Version)
			if err != nil {
				return nil, fmt.Errorf("version %s: %w", b.of.Version, err)
			}
			took = append(took, t.Seconds())
		}
		out = append(out, figure{
			fmt.Sprintf("version that %s, no network: until the old one works, s", b.what),
			spread(took, "%.1f") + fmt.Sprintf(" (n=%d)", len(took)),
			"",
			"",
			b.aim,
		})
	}
	return out, nil
}

// undone upgrades to a version that does not work, without the bus from the switch on. It
// returns the time from the switch until the executor knows that the old version works
// again, and starts the bus again.
func undone(ctx context.Context, w *world, server *rig.Server, old, version string) (time.Duration, error) {
	current := filepath.Join(server.Root, "agents", sample.Agent, "current")
	before, err := os.Readlink(current)
	if err != nil {
		return 0, err
	}
	logged := len(server.Executor.Log())
	cli := exec.CommandContext(ctx, filepath.Join(w.Bin, "garrison"), "up", "beacon@"+version, "--on", "all", "--yes",
		"--at-once")
	cli.Env = append(os.Environ(), "GARRISON_CONTEXT="+w.ContextFile())
	var said strings.Builder
	cli.Stderr = &said
	if err := cli.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = cli.Process.Kill() // it waits for a bus that is gone
		_ = cli.Wait()
	}()
	switched, err := changed(ctx, current, before)
	if err != nil {
		return 0, errors.Join(err, errors.New(said.String()))
	}
	if err := w.Garrisond.Kill(); err != nil {
		return 0, err
	}
	err = poll(ctx, "the executor has undone it", func() (bool, error) {
		return changeEnded(server.Executor.Log()[logged:], "STATE_UNDONE")
	})
	if err != nil {
		return 0, err
	}
	took := time.Since(switched)
	if got, err := server.Get(ctx, "/"); err != nil || got != old {
		return 0, fmt.Errorf("it answers %q (%w), want %s", got, err, old)
	}
	if now, err := os.Readlink(current); err != nil || now != before {
		return 0, fmt.Errorf("the link leads to %s (%w), want %s", now, err, before)
	}
	if err := w.Start(ctx); err != nil {
		return 0, err
	}
	t, err := lastTask(ctx, w, sample.Agent, taskv1.State_STATE_UNDONE)
	if err == nil && t.GetTo().GetVersion() != version {
		err = fmt.Errorf("the last task is of version %s", t.GetTo().GetVersion())
	}
	return took, err
}

// changed waits until a link leads elsewhere, and returns when it did. It reads the link
// all the time: a version that exits at once is rolled back within milliseconds.
func changed(ctx context.Context, link, from string) (time.Time, error) {
	const pause = 200 * time.Microsecond
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(pause) {
		if to, err := os.Readlink(link); err == nil && to != from {
			return time.Now(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%s still leads to %s", link, from)
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
