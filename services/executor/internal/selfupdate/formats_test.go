package selfupdate

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/format"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/removal"
	"github.com/garrison-fleet/garrison/services/executor/internal/status"
)

// ../../testdata/format0 holds the files as executors wrote them before there were numbers.

// unnumbered returns a root with those files.
func unnumbered(t *testing.T) layout.Root {
	t.Helper()
	root := layout.Root(t.TempDir())
	if err := os.CopyFS(root.Home(), os.DirFS("../../testdata/format0")); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root.Key(), 0o600); err != nil { // a checkout keeps no modes
		t.Fatal(err)
	}
	return root
}

func TestFilesWithoutNumbersAreRead(t *testing.T) {
	root := unnumbered(t)
	who, err := identity.Read(root)
	if err != nil || who.Ownership != identity.Manual || identity.CheckKey(root) != nil {
		t.Errorf("identity %+v, %v, key %v", who, err, identity.CheckKey(root))
	}
	if s, err := status.Read(string(root)); err != nil || s.Applied != 7 || len(s.Agents) != 1 {
		t.Errorf("status %+v, %v", s, err)
	}
	if n := readStarts(root)["../images/x/executor"]; n != 2 {
		t.Errorf("started %d times, want 2", n)
	}
	if server, err := removal.Marked(root); err != nil || server != who.ServerID {
		t.Errorf("marked for %q, %v", server, err)
	}
	j, err := journal.Open(root.Journal())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	want := journal.Contents{Applied: 7, Instances: 1, Changes: 1, Ended: 1, Outbox: 2}
	if c, err := j.Examine(); err != nil || c != want || j.ID() == "" || j.Origin() != (journal.Origin{}) {
		t.Errorf("journal %q holds %+v, want %+v, %v; found as %+v", j.ID(), c, want, err, j.Origin())
	}
}

// newer writes the format numbers of a later program into a JSON file.
func newer(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data = append([]byte(`{"format":7,"format_floor":7,`), strings.TrimPrefix(string(data), "{")...)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestFilesOfANewerProgramAreRefusedByNameAndNumber(t *testing.T) {
	for name, read := range map[string]func(root layout.Root) error{
		"identity.json":  func(root layout.Root) error { _, err := identity.Read(root); return err },
		"key.seed":       identity.CheckKey,
		"status.json":    func(root layout.Root) error { _, err := status.Read(string(root)); return err },
		"starts.json":    func(root layout.Root) error { return countStart(root, "x") },
		"tombstone.json": func(root layout.Root) error { _, err := removal.Marked(root); return err },
	} {
		t.Run(name, func(t *testing.T) {
			root := unnumbered(t)
			path := filepath.Join(root.Home(), name)
			newer(t, path)
			before, _ := os.ReadFile(path)
			err := read(root)
			if err == nil || !strings.Contains(err.Error(), "FORMAT_TOO_NEW") || !strings.Contains(err.Error(), path) ||
				!strings.Contains(err.Error(), "format 7") {
				t.Errorf("got %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Error("the file was written")
			}
		})
	}
}

// A program that is too old for the journal is not one to fall back to, and one that finds
// itself too old starts the newer one whatever else is wrong with it.
func TestNoStartFallsBackToAProgramThatMayNotUseTheJournal(t *testing.T) {
	for name, c := range map[string]struct {
		at     circumstances
		before string
		become string
	}{
		"too old, and the version before is not": {
			circumstances{There: true, Count: maxStarts, Unfit: true}, "before", "before",
		},
		"too old, as the version before": {
			circumstances{There: true, Count: maxStarts, Unfit: true}, "", "linked",
		},
		"not too old": {circumstances{There: true, Count: maxStarts}, "", ""},
	} {
		c.at.Linked, c.at.Before = "linked", func() string { return c.before }
		if become, why := decideStart(c.at); become != c.become || why == "" {
			t.Errorf("%s: becomes %q because of %q, want %q", name, become, why, c.become)
		}
	}
	path := filepath.Join(t.TempDir(), "journal.db")
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Update(func(tx *journal.Tx) error { return tx.SetKnows("now") }); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if err := journal.Fits(path); err != nil {
		t.Errorf("it does not fit: %v", err)
	}
	journal.Format.Now, journal.Format.Floor = 2, 2
	j, err = journal.Open(path) // as a later program does
	journal.Format = format.Spec{Kind: "journal", Now: 1, Floor: 1}
	if err != nil {
		t.Fatal(err)
	}
	err = j.Read(func(tx *journal.Tx) error {
		if tx.Knows("now") || tx.Knows("before") {
			t.Error("a program of format 1 may use format 2")
		}
		return nil
	})
	if err := errors.Join(err, j.Close()); err != nil {
		t.Fatal(err)
	}
	for how, refused := range map[string]error{"fits": journal.Fits(path), "opens": openOnly(path)} {
		if refused == nil || !strings.Contains(refused.Error(), "FORMAT_TOO_NEW: journal") {
			t.Errorf("%s: %v", how, refused)
		}
	}
}

func openOnly(path string) error {
	j, err := journal.Open(path)
	if err == nil {
		_ = j.Close()
	}
	return err
}
