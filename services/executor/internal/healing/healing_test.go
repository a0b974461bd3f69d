package healing

import (
	"testing"
	"time"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

func TestOnlyAPolicyThatHealsAndIsNotBrakedLetsAnythingBeHealed(t *testing.T) {
	for policy, want := range map[environmentv1.DriftPolicy]bool{
		environmentv1.DriftPolicy_DRIFT_POLICY_UNSPECIFIED: true,
		environmentv1.DriftPolicy_DRIFT_POLICY_HEAL:        true,
		environmentv1.DriftPolicy_DRIFT_POLICY_REPORT:      false,
		environmentv1.DriftPolicy_DRIFT_POLICY_HOLD:        false,
		99: false,
	} {
		if have := Allowed(&desiredv1.Document{Drift: policy}); have != want {
			t.Errorf("%s: %v; want %v", policy, have, want)
		}
		if Allowed(&desiredv1.Document{Drift: policy, DriftBraked: true}) {
			t.Errorf("%s heals although it is braked", policy)
		}
	}
}

func TestDamageIsDueAfterItLasted(t *testing.T) {
	start, d := time.Unix(1000, 0), NewDamage(10*time.Second)
	for n, c := range []struct {
		at      time.Duration
		damaged bool
		left    time.Duration
		began   bool
	}{
		{0, false, 10 * time.Second, false},
		{1 * time.Second, true, 10 * time.Second, true},
		{5 * time.Second, true, 6 * time.Second, false},
		{11 * time.Second, true, 0, false},
		{20 * time.Second, true, 0, false},
		{21 * time.Second, false, 10 * time.Second, false}, // it was healed
		{22 * time.Second, true, 10 * time.Second, true},
	} {
		left, began := d.Note("web", c.damaged, start.Add(c.at))
		if left != c.left || began != c.began {
			t.Errorf("step %d: %s, %v; want %s, %v", n, left, began, c.left, c.began)
		}
	}
}
