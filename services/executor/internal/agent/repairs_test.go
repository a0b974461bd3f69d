package agent

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/services/executor/internal/change"
)

func TestAnAgentThatIsDamagedAgainAndAgainIsRepairedLessAndLessOften(t *testing.T) {
	r := NewRepairs(func([]byte) bool { return false }, func() {}, zerolog.Nop())
	var rests []string
	for range 9 {
		rests = append(rests, r.Rest("a").String())
		r.Ended(&change.Record{Agent: "a", Repairs: change.RepairsImage})
	}
	want := []string{"10m0s", "10m0s", "20m0s", "40m0s", "1h20m0s", "2h40m0s", "5h20m0s", "10h40m0s", "21h20m0s"}
	if !slices.Equal(rests, want) {
		t.Errorf("rests %v, want %v", rests, want)
	}
}

func TestADamagedAgentSaysWhenItIsRepairedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRepairs(func([]byte) bool { return false }, func() {}, zerolog.Nop())
		if at := r.NextAt("a", "one"); !at.IsZero() {
			t.Errorf("before the first repair: %v", at)
		}
		r.Began("one")
		r.Ended(&change.Record{Agent: "a", Repairs: change.RepairsImage})
		if at := r.NextAt("a", "one"); time.Until(at) != RestAfter {
			t.Errorf("after a repair: in %v", time.Until(at))
		}
		if at := r.NextAt("a", "two"); !at.IsZero() {
			t.Errorf("another image or configuration: %v", at)
		}
		r.Allow(false)
		if at := r.NextAt("a", "one"); !at.IsZero() {
			t.Errorf("where nothing is healed: %v", at)
		}
		r.Allow(true)
		time.Sleep(RestAfter)
		if at := r.NextAt("a", "one"); !at.IsZero() {
			t.Errorf("after the rest: %v", at)
		}
		r.Began("one")
		r.Forget()
		if at := r.NextAt("a", "one"); !at.IsZero() {
			t.Errorf("forgotten: %v", at)
		}
	})
}
