package chaos

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// restoreRound restores an old copy of the control plane's data. Nothing may change on a
// server before an operator accepts the loss.
func (w *World) restoreRound(ctx context.Context, r Round) (done, wrong []string, err error) {
	backup := filepath.Join(w.Dir, "backup")
	if err := errors.Join(w.Garrisond.Stop(), copyTree(ctx, w.DataDir(), backup), w.Start(ctx)); err != nil {
		return nil, nil, err
	}
	kept := len(w.Intents.IDs())
	w.load(ctx, r)
	if wrong = w.rest(ctx); len(wrong) > 0 {
		return nil, wrong, nil
	}
	have, err := w.everything(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err := errors.Join(w.Garrisond.Kill(), copyTree(ctx, backup, w.DataDir()), w.Start(ctx)); err != nil {
		return nil, nil, err
	}
	w.Intents.Forget(kept) // those after the backup are lost, as expected
	done = []string{"restore a backup"}

	ahead := w.waitAhead(ctx)
	if ahead == "" {
		return done, []string{"no server is named as ahead of the restored ledger"}, nil
	}
	_ = rig.Sleep(ctx, 10*beat)
	still, err := w.everything(ctx)
	if err != nil || still != have {
		wrong = append(wrong,
			fmt.Sprintf("servers changed after the restore (%v):\nbefore %s\nafter  %s", err, have, still))
	}
	if _, err := w.CLI(ctx, "restore", "accept", "--on", "all", "--yes"); err != nil {
		wrong = append(wrong, err.Error())
	}
	return append(done, "accept it"), append(wrong, w.adoptFound(ctx)...), nil
}

// adoptFound installs what servers got since the backup and what the restored ledger lacks.
// None of it may be removed without an intent: each must be listed as found.
func (w *World) adoptFound(ctx context.Context) (wrong []string) {
	_ = rig.Sleep(ctx, 10*beat) // in which servers list what they have
	servers, err := w.servers(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	instances, err := w.instances(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, s := range w.Servers() {
		actual, err := w.inspect(ctx, s)
		if err != nil {
			return append(wrong, err.Error())
		}
		for agent, r := range actual {
			if instances[s.Name][agent] != nil {
				continue
			}
			found := func(f *serverv1.FoundAgent) bool { return f.Agent == agent }
			if !slices.ContainsFunc(servers[s.Name].GetFound(), found) {
				wrong = append(wrong, fmt.Sprintf("%s has %s, and it is neither an instance nor found", s.Name, agent))
			}
			if _, err := w.CLI(ctx, "install", agent+"@"+r.Linked, "--on", s.Name); err != nil {
				wrong = append(wrong, err.Error())
			}
		}
	}
	return wrong
}

// waitAhead waits until garrison restore names servers, and returns what it says.
func (w *World) waitAhead(ctx context.Context) string {
	for end := time.Now().Add(time.Minute); time.Now().Before(end) && ctx.Err() == nil; _ = rig.Sleep(ctx, beat) {
		out, _ := w.CLI(ctx, "restore")
		for _, s := range w.staying() {
			if strings.Contains(out, s.Name) {
				return out
			}
		}
	}
	return ""
}

// everything returns what every staying server has, in one text.
func (w *World) everything(ctx context.Context) (string, error) {
	var b strings.Builder
	for _, s := range w.staying() {
		actual, err := w.inspect(ctx, s)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "%s %+v; ", s.Name, actual)
	}
	return b.String(), nil
}

// copyTree replaces the content of to with that of from. The directory itself stays: it may be a mount.
func copyTree(ctx context.Context, from, to string) error {
	script := `mkdir -p "$2" && find "$2" -mindepth 1 -delete && cp -a "$1/." "$2/"`
	out, err := exec.CommandContext(ctx, "sh", "-c", script, "copy", from, to).CombinedOutput()
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w: %s", from, to, err, out)
	}
	return nil
}
