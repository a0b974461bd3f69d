package busy_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/executor/internal/busy"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func sections(t *testing.T) busy.Sections {
	t.Helper()
	s := busy.Sections{Root: layout.Root(t.TempDir()), Boot: "this boot"}
	if err := os.Mkdir(s.Root.Home(), 0o700); err != nil {
		t.Fatal(err)
	}
	return s
}

func section(name string, d time.Duration) busy.Section {
	now := time.Now()
	return busy.Section{Name: name, Since: now, Until: now.Add(d)}
}

func names(t *testing.T, s busy.Sections, at time.Time) string {
	t.Helper()
	last, err := s.List(at)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, x := range last {
		out = append(out, x.Name)
	}
	return strings.Join(out, " ")
}

func TestASectionLastsUntilItEndsOrItsTimeComes(t *testing.T) {
	s := sections(t)
	for name, d := range map[string]time.Duration{"short": time.Hour, "long": 2 * time.Hour} {
		if _, err := s.Begin(t.Context(), section(name, d)); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, s, time.Now()); got != "long short" {
		t.Errorf("sections %q", got)
	}
	if got := names(t, s, time.Now().Add(time.Hour)); got != "long" {
		t.Errorf("an hour later %q", got)
	}
	for _, want := range []bool{true, false} {
		if lasted, err := s.End("long"); lasted != want || err != nil {
			t.Errorf("ended: %v, want %v: %v", lasted, want, err)
		}
	}
}

func TestASectionOfAProcessDoesNotOutliveItOrTheBoot(t *testing.T) {
	s := sections(t)
	x := section("mine", time.Hour)
	if !x.Of(os.Getpid(), s.Boot) {
		t.Fatal("this process does not run")
	}
	other := x
	other.Name, other.Started = "reused-id", x.Started+1
	for _, x := range []busy.Section{x, other} {
		if _, err := s.Begin(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, s, time.Now()); got != "mine" {
		t.Errorf("sections %q", got)
	}
	s.Boot = "the next boot"
	if got := names(t, s, time.Now()); got != "" {
		t.Errorf("after a boot %q", got)
	}
}

func TestAFileThatIsNoSectionDefersNothingAndIsSwept(t *testing.T) {
	s := sections(t)
	if _, err := s.Begin(t.Context(), section("backup", time.Hour)); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"half.json": `{"name":`, "another.json": `{"name":"backup"}`,
		"endless.json": `{"name":"endless","until":"9999-01-01T00:00:00Z"}`, layout.TemporaryPrefix + "1": "",
	} {
		if err := os.WriteFile(filepath.Join(s.Root.Busy(), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, s, time.Now()); got != "backup" {
		t.Errorf("sections %q", got)
	}
	if _, err := s.Begin(t.Context(), section("next", time.Hour)); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(s.Root.Busy()); len(left) != 2 {
		t.Errorf("left: %v", left)
	}
}

func TestSectionsAreBounded(t *testing.T) {
	s := sections(t)
	for n := range busy.MaxSections {
		if _, err := s.Begin(t.Context(), section("s"+strconv.Itoa(n), time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Begin(t.Context(), section("s0", time.Hour)); err != nil {
		t.Errorf("one that lasts, again: %v", err)
	}
	for what, x := range map[string]busy.Section{
		"too many": section("more", time.Hour), "no name": section("", time.Hour), "no time": section("a", 0),
		"too long": section("a", busy.Longest+time.Second), "a path": section("../a", time.Hour),
	} {
		if _, err := s.Begin(t.Context(), x); err == nil {
			t.Errorf("%s: it began", what)
		}
	}
}

func TestNoSectionBeginsWhileAChangePasses(t *testing.T) {
	s := sections(t)
	pass, last, err := s.Pass(t.Context(), false)
	if err != nil || len(last) > 0 {
		t.Fatalf("it does not pass: %v, %v", last, err)
	}
	began := make(chan error, 1)
	go func() {
		_, err := s.Begin(t.Context(), section("backup", time.Hour))
		began <- err
	}()
	select {
	case err := <-began:
		t.Fatalf("it began meanwhile: %v", err)
	case <-time.After(200 * time.Millisecond):
	}
	if err := pass.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	if pass, last, err = s.Pass(t.Context(), false); err != nil || pass != nil || len(last) != 1 {
		t.Errorf("it passes while %v last: %v", last, err)
	}
	if pass, last, err = s.Pass(t.Context(), true); err != nil || pass == nil || len(last) != 1 {
		t.Errorf("an overrun does not pass: %v, %v", last, err)
	}
	_ = pass.Close()
}

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
