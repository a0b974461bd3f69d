package chaos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/rig/fault"
	"github.com/garrison-fleet/garrison/pkg/code"
)

// Expectations of a cloned server.
const (
	clonedFor        = 20 * beat
	factsOfAClone    = 10 // at most, for two sessions of one identity
	duplicateCode    = code.DuplicateIdentity
	duplicateClearIn = 3 * time.Minute
)

// cloneRound runs a copy of a server beside it: the control plane reports it, the ledger does
// not fill up, and the server recovers when the copy is gone.
func (w *World) cloneRound(ctx context.Context) (done, wrong []string, err error) {
	s := w.staying()[len(w.staying())-1]
	root := filepath.Join(w.Dir, "clone")
	if out, err := exec.CommandContext(ctx, "cp", "-a", s.Root, root).CombinedOutput(); err != nil {
		return nil, nil, fmt.Errorf("copy %s: %w: %s", s.Root, err, out)
	}
	before, err := w.LedgerEnd(ctx)
	if err != nil {
		return nil, nil, err
	}
	clone := w.Clone(s, root)
	if err := clone.Start(); err != nil {
		return nil, nil, err
	}
	done = []string{"clone " + s.Name}
	named := false
	for end := time.Now().Add(clonedFor); time.Now().Before(end) && ctx.Err() == nil; _ = rig.Sleep(ctx, beat) {
		out, _ := w.CLI(ctx, "explain", s.Name)
		named = named || strings.Contains(out, duplicateCode)
	}
	after, err := w.LedgerEnd(ctx)
	if !named {
		wrong = append(wrong, "the clone is not named as "+duplicateCode)
	}
	if n := int(after - before); err == nil && n > factsOfAClone {
		wrong = append(wrong, fmt.Sprintf("%d facts in %v because of the clone", n, clonedFor))
	}
	// The clone must not stop its agents: both roots name the same ports.
	err = errors.Join(err, clone.Kill(), w.killBelow(root), os.RemoveAll(root))
	if err == nil && !w.clears(ctx, s.Name) {
		wrong = append(wrong,
			fmt.Sprintf("%s is not cleared %v after the clone ended", duplicateCode, duplicateClearIn))
	}
	return done, wrong, err
}

// clears waits until a server is no longer shown as having two sessions.
func (w *World) clears(ctx context.Context, server string) bool {
	for end := time.Now().Add(duplicateClearIn); time.Now().Before(end) && ctx.Err() == nil; _ = rig.Sleep(ctx, beat) {
		out, err := w.CLI(ctx, "explain", server)
		if err == nil && !strings.Contains(out, duplicateCode) {
			return true
		}
	}
	return false
}

// killBelow ends the agents that the clone started.
func (w *World) killBelow(root string) error {
	pids, err := rig.ProcessesBelow(root)
	for _, pid := range pids {
		err = errors.Join(err, fault.KilledAgent(pid).Start())
	}
	return err
}
