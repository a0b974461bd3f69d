package agent

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

func TestRepairsThatDoNotHoldEndUntilATaskChangesTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRepairs(func([]byte) bool { return true }, func() {}, zerolog.Nop())
		repair := func(of, task string) { r.Ended(&change.Record{Agent: "a", Repairs: of, TaskID: task}) }
		over := func(when string, want bool) {
			t.Helper()
			if is := r.Over("a"); is != want || r.Pending(Version{Agent: "a"}) == want {
				t.Errorf("%s: over %v, pending %v; want over %v", when, is, r.Pending(Version{Agent: "a"}), want)
			}
		}
		repair(change.RepairsImage, "")
		over("damaged after a repair", false)
		repair(change.RepairsConfiguration, "")
		over("damaged after a second one", true)
		time.Sleep(2 * heldFor)
		over("long after that", true)
		repair(change.RepairsImage, "task")
		over("after a task repaired it", false)
		repair(change.RepairsImage, "")
		repair(change.RepairsImage, "")
		over("after two more", true)
		r.Ended(&change.Record{Agent: "a"})
		over("after another version came", false)
		repair(change.RepairsImage, "")
		repair(change.RepairsImage, "")
		time.Sleep(heldFor + time.Second)
		over("damaged when the last one held for a week", false)
		repair(change.RepairsImage, "")
		over("after the first one that follows", false)
	})
}

func TestADamagedAgentSaysWhenItIsRepairedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRepairs(func([]byte) bool { return false }, func() {}, zerolog.Nop())
		if at := r.NextAt("one"); !at.IsZero() {
			t.Errorf("before the first repair: %v", at)
		}
		r.Began("one")
		r.Ended(&change.Record{Agent: "a", Repairs: change.RepairsImage})
		if at := r.NextAt("one"); time.Until(at) != RestAfter {
			t.Errorf("after a repair: in %v", time.Until(at))
		}
		if at := r.NextAt("two"); !at.IsZero() {
			t.Errorf("another image or configuration: %v", at)
		}
		r.Allow(false)
		if at := r.NextAt("one"); !at.IsZero() {
			t.Errorf("where nothing is healed: %v", at)
		}
		r.Allow(true)
		time.Sleep(RestAfter)
		if at := r.NextAt("one"); !at.IsZero() {
			t.Errorf("after the rest: %v", at)
		}
		r.Began("one")
		r.Forget()
		if at := r.NextAt("one"); !at.IsZero() {
			t.Errorf("forgotten: %v", at)
		}
	})
}
