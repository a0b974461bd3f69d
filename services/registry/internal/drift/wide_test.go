package drift

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

func TestAChangeThatLetsMoreBeHealedIsKnown(t *testing.T) {
	const report, heal = environmentv1.DriftPolicy_DRIFT_POLICY_REPORT, environmentv1.DriftPolicy_DRIFT_POLICY_HEAL
	e := func(p environmentv1.DriftPolicy, brake uint32) *environmentv1.Environment {
		return &environmentv1.Environment{Drift: p, DriftBrake: brake}
	}
	for name, c := range map[string]struct {
		have, next *environmentv1.Environment
		want       bool
	}{
		"report becomes heal":               {e(report, 0), e(heal, 0), true},
		"report becomes the default policy": {e(report, 0), e(0, 0), true},
		"heal becomes report":               {e(heal, 0), e(report, 100), false},
		"the brake is lifted":               {e(heal, 0), e(heal, 100), true},
		"the brake is stricter":             {e(heal, 50), e(heal, 0), false},
		"the brake of a report":             {e(report, 20), e(report, 100), false},
		"something else":                    {e(heal, 20), e(heal, 0), false},
	} {
		if have := Widens(c.have, c.next); have != c.want {
			t.Errorf("%s: %v; want %v", name, have, c.want)
		}
	}
	for want, to := range map[string]*environmentv1.Environment{code.TooWide: nil, "": e(report, 0)} {
		if have := MovesTooWide(to, 3, 2, "--all", "repair").GetCode(); have != want {
			t.Errorf("a move to %v: %q; want %q", to, have, want)
		}
	}
}
