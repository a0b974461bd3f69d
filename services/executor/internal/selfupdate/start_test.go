package selfupdate

import (
	"os"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/engine"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

func TestWhatAStartBecomes(t *testing.T) {
	const linked, before = "../images/1/executor", "../images/0/executor"
	good := circumstances{Linked: linked, There: true}
	with := func(change func(*circumstances)) circumstances {
		c := good
		change(&c)
		return c
	}
	for name, c := range map[string]struct {
		at     circumstances
		before string
		become string
		says   bool
	}{
		"nothing was installed":   {at: circumstances{}},
		"a program was installed": {good, before, linked, false},
		"it is that program": {
			at: with(func(c *circumstances) { c.Runs = true }), before: before,
		},
		"it is that program, started by another": {
			at: with(func(c *circumstances) { c.Runs, c.Started = true, true }), before: before,
		},
		"another started it, and it is not there": {
			with(func(c *circumstances) { c.Started = true }), before, "", true,
		},
		"another started it, in place of that": {
			with(func(c *circumstances) { c.Started, c.Count = true, maxStarts }), before, "", true,
		},
		"the program is gone": {
			with(func(c *circumstances) { c.There = false }), "", "", true,
		},
		"the program is gone, and the one before is there": {
			with(func(c *circumstances) { c.There = false }), before, before, true,
		},
		"it was started twice": {
			with(func(c *circumstances) { c.Count = maxStarts - 1 }), before, linked, false,
		},
		"it was started too often": {
			with(func(c *circumstances) { c.Count = maxStarts }), "", "", true,
		},
		"it was started far too often": {
			with(func(c *circumstances) { c.Count = maxStarts + 9 }), "", "", true,
		},
		"it was started too often, and the one before goes": {
			with(func(c *circumstances) { c.Count = maxStarts }), before, before, true,
		},
		"it runs though it was started too often": {
			at: with(func(c *circumstances) { c.Count, c.Runs = maxStarts, true }), before: before,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.at.Before = func() string { return c.before }
			become, why := decideStart(c.at)
			if become != c.become || (why != "") != c.says {
				t.Errorf("becomes %q because of %q, want %q and a reason: %v", become, why, c.become, c.says)
			}
		})
	}
}

func TestTheStartsOfEachProgramAreCountedApart(t *testing.T) {
	root := layout.Root(t.TempDir())
	if err := os.MkdirAll(root.Home(), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"new", "new", "old", "new", "old"} {
		if err := countStart(root, program); err != nil {
			t.Fatal(err)
		}
	}
	if err := forgetStarts(root, "old"); err != nil {
		t.Fatal(err)
	}
	if got := readStarts(root); got["new"] != 3 || got["old"] != 0 {
		t.Errorf("counted %v, want three of the new one", got)
	}
	// as it was written once
	if err := os.WriteFile(root.Starts(), []byte(`{"program":"new","count":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := readStarts(root); len(got) != 0 {
		t.Errorf("counted %v from what is not a count", got)
	}
}

// A candidate reports that it works and ends at once, so its end may be seen before its report.
func TestAReportThatIsReadAfterTheEndCounts(t *testing.T) {
	for _, says := range []bool{true, false} {
		try := &trial{proven: make(chan struct{}), closed: make(chan struct{}), done: make(chan struct{})}
		close(try.done)
		time.AfterFunc(20*time.Millisecond, func() {
			if says {
				close(try.proven)
			}
			close(try.closed)
		})
		if err := try.watch(t.Context(), &engine.HandOver{Timeout: time.Minute}); (err == nil) != says {
			t.Errorf("reported %v; the trial ends with %v", says, err)
		}
	}
}
