package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// A local user who can write the root, or replace it, would decide what root executes.
func TestARootThatOthersCanChangeIsRefused(t *testing.T) {
	_, seed, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	token := trust.Token{
		URL: "nats://127.0.0.1:1", ServerID: "s", Cell: "main", Secret: "s", JWT: "j", Seed: string(seed),
	}
	dir := t.TempDir()
	tokenFile, link := filepath.Join(dir, "token"), filepath.Join(dir, "link")
	open, above := filepath.Join(dir, "open"), filepath.Join(dir, "open", "below")
	inside := filepath.Join(dir, "inside")
	if err := errors.Join(
		os.Chmod(dir, 0o700),
		os.WriteFile(tokenFile, []byte(token.String()+"\n"), 0o600),
		os.MkdirAll(above, 0o700), os.Chmod(open, 0o777), //nolint:gosec // as the attack has it
		os.Symlink(inside, link),
		os.MkdirAll(filepath.Join(inside, "executor"), 0o700), os.Chmod(filepath.Join(inside, "executor"), 0o775),
	); err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{open, above, link, inside} {
		for _, args := range [][]string{
			{"join", "--token-file", tokenFile}, {"run"}, {"run", "--token-file", tokenFile}, {"uninstall"},
			{"uninstall", "--dry-run"}, {"journal", "show"}, {"rehearse", "--journal", tokenFile},
		} {
			err := execute(t.Context(), append(args, "--root", root))
			if got := fault.RefusalOf(err).GetCode(); got != code.UnsafePermissions {
				t.Errorf("%v --root %s: %v, want %s", args, root, err, code.UnsafePermissions)
			}
		}
	}
	if !layout.Missing(filepath.Join(open, "executor")) {
		t.Error("a refused command wrote into the root")
	}
}
