package chaos_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/e2e/chaos"
)

func TestASeedAlwaysLeadsToTheSameRounds(t *testing.T) {
	one := chaos.Schedule(7, 30, 10*time.Second, chaos.Kinds, false)
	two := chaos.Schedule(7, 30, 10*time.Second, chaos.Kinds, false)
	if diff := cmp.Diff(one, two); diff != "" {
		t.Errorf("the schedule differs:\n%s", diff)
	}
	if other := chaos.Schedule(8, 30, 10*time.Second, chaos.Kinds, false); cmp.Equal(one, other) {
		t.Error("another seed leads to the same schedule")
	}
}

func TestEveryKindHasItsTurnAndItsFaultsComeInOrder(t *testing.T) {
	const load = 10 * time.Second
	seen := map[chaos.Kind]int{}
	for _, r := range chaos.Schedule(1, 2*len(chaos.Kinds), load, chaos.Kinds, false) {
		seen[r.Kind]++
		last := time.Duration(0)
		for _, s := range r.Strikes {
			if s.At < last || s.At > load || s.For <= 0 {
				t.Errorf("round %d: a fault at %v for %v, after one at %v", r.Number, s.At, s.For, last)
			}
			last = s.At
		}
		if len(r.Strikes) == 0 && r.Kind != chaos.Clone && r.Kind != chaos.Restore {
			t.Errorf("round %d (%s) has no faults", r.Number, r.Kind)
		}
	}
	for _, k := range chaos.Kinds {
		if seen[k] != 2 {
			t.Errorf("%s has %d rounds, want 2", k, seen[k])
		}
	}
}

func TestServicesApartAreNotRestored(t *testing.T) {
	for _, r := range chaos.Schedule(1, 40, time.Second, chaos.Kinds, true) {
		if r.Kind == chaos.Restore {
			t.Error("the schedule restores a backup although the services run apart")
		}
	}
}

func TestAnUnknownKindIsRefused(t *testing.T) {
	if _, err := chaos.ParseKinds("kills,nonsense"); err == nil {
		t.Error("accepted")
	}
}
