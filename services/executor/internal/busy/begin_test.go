package busy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/services/executor/internal/busy"
)

// holdLock takes the lock that the executor and busy begin share, as a process that does not go on.
func holdLock(t *testing.T, s busy.Sections, how int) *os.File {
	t.Helper()
	f, err := os.Open(s.Root.Home())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := unix.Flock(int(f.Fd()), how); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTheTimeOfASectionCountsFromItsBeginning(t *testing.T) {
	s := sections(t)
	x := section("backup", time.Minute)
	x.Since, x.Until = x.Since.Add(-time.Hour), x.Until.Add(-time.Hour) // it waited an hour for a change
	x, err := s.Begin(t.Context(), x)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Until(x.Until); left < 30*time.Second || left > time.Minute {
		t.Errorf("it lasts %s, want a minute", left)
	}
	if got := names(t, s, time.Now()); got != "backup" {
		t.Errorf("sections %q", got)
	}
}

// A crash, and the trial of the executor's own update, end the lock, and not the change.
func TestNoSectionBeginsWhileAChangeIsOpenBesideAnAgent(t *testing.T) {
	s := sections(t)
	path := s.Root.Changing("beacon")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Begin(soon, section("backup", time.Hour)); fault.RefusalOf(err).GetCode() != code.ChangeOpen {
		t.Fatalf("it began: %v", err)
	}
	if pass, _, err := s.Pass(t.Context(), false); err != nil || pass == nil {
		t.Errorf("a section that waits keeps changes from passing: %v", err)
	} else {
		_ = pass.Close()
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(t.Context(), section("backup", time.Hour)); err != nil {
		t.Error(err)
	}
}

func TestAProcessThatKeepsTheLockDefersNoChangeForEver(t *testing.T) {
	s := sections(t)
	holdLock(t, s, unix.LOCK_EX)
	if pass, last, err := s.Pass(t.Context(), false); err != nil || pass != nil || len(last) > 0 {
		t.Errorf("passes %v, %v: %v", pass, last, err)
	}
	pass, _, err := s.Pass(t.Context(), true)
	if err != nil || pass == nil {
		t.Fatalf("an overrun does not pass: %v", err)
	}
	_ = pass.Close()
	ended, end := context.WithCancel(t.Context())
	end()
	if pass, _, err := s.Pass(ended, true); err == nil {
		t.Errorf("it passes after its end: %v", errors.Join(err, pass.Close()))
	}
}

func TestAFileInThePlaceOfTheSectionsIsNone(t *testing.T) {
	s := sections(t)
	if err := os.WriteFile(s.Root.Busy(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s, time.Now()); got != "" {
		t.Errorf("sections %q", got)
	}
}
