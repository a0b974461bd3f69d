package upgrade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fsm"
)

func TestEachStateOfAnUpgradeHasAWayToAnEnd(t *testing.T) {
	t.Parallel()
	if err := Life.Check(); err != nil {
		t.Fatal(err)
	}
	for _, s := range Life.States() {
		if !reachesEnd(Life, s, map[State]bool{}) {
			t.Errorf("an upgrade that is %s never ends", s)
		}
	}
}

func reachesEnd(life fsm.Table[State, Event], s State, seen map[State]bool) bool {
	if life.End(s) {
		return true
	}
	seen[s] = true
	for _, next := range life[s] {
		if !seen[next] && reachesEnd(life, next, seen) {
			return true
		}
	}
	return false
}

func TestARecordSaysWhatHappened(t *testing.T) {
	t.Parallel()
	s, at := store(t.TempDir()), time.Date(2026, 11, 30, 7, 0, 0, 0, time.UTC)
	if r, err := s.load(); r != nil || err != nil {
		t.Fatalf("before the first upgrade: %v, %v", r, err)
	}
	r := &Record{ID: "1", Actor: "ann", From: Program{"1.0.0", "aa"}, To: Program{"1.1.0", "bb"}, State: Planned}
	for _, e := range []Event{passed, passed, passed, failed} {
		if err := r.move(e, "as "+string(r.State), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.move(finished, "", at); err == nil || r.State != Returning {
		t.Errorf("an upgrade that goes back was finished: %v", err)
	}
	if err := s.save(r); err != nil {
		t.Fatal(err)
	}
	got, err := s.load()
	if err != nil || got.State != Returning || len(got.Steps) != 4 || got.Steps[3] != r.Steps[3] || got.To != r.To {
		t.Errorf("read %+v, %v; want %+v", got, err, r)
	}
}

func TestARecordOfAnotherProgramIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, says string }{
		"newer":         {`{"format": 2, "format_floor": 2, "state": "planned"}`, "FORMAT_TOO_NEW"},
		"another state": {`{"format": 1, "format_floor": 1, "state": "resting"}`, `the state "resting" is not known`},
		"cut":           {`{"format": 1,`, "unexpected end"},
	} {
		s := store(t.TempDir())
		if err := os.WriteFile(s.record(), []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.load(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestWhatEarlierUpgradesKeptIsDeletedButNotTheirRecord(t *testing.T) {
	t.Parallel()
	s, r := store(t.TempDir()), &Record{ID: "1", State: Finished}
	if err := os.MkdirAll(s.written(r), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := s.save(r); err != nil {
		t.Fatal(err)
	}
	if err := s.clear(); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(string(s) + "/*"); len(left) != 1 || left[0] != s.record() {
		t.Errorf("left: %v", left)
	}
}

func TestTheEndOfALongOutputIsKept(t *testing.T) {
	t.Parallel()
	var end tail
	for range 100 {
		_, _ = end.Write([]byte(strings.Repeat("x", 99) + "\n"))
	}
	_, _ = end.Write([]byte("the reason\n\n"))
	if got := lastLine(string(end)); got != "the reason" || len(end) != tailSize {
		t.Errorf("%q of %d bytes", got, len(end))
	}
}
