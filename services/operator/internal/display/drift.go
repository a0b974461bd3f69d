package display

import (
	"fmt"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/output"
)

// Drift describes what is done about drift in an environment.
func Drift(d *registryv1.EnvironmentDrift) string {
	text := output.Word(d.GetPolicy())
	if d.GetPolicy() != environmentv1.DriftPolicy_DRIFT_POLICY_HEAL {
		return text
	}
	if b := d.GetBraked(); b != nil {
		return fmt.Sprintf("%s, braked since %s: %d of %d online servers drifted, more than %d %%", text,
			output.Stamp(b.GetSince()), b.GetDrifting(), b.GetOnline(), b.GetPercent())
	}
	return fmt.Sprintf("%s, with a brake at %d %%", text, d.GetBrakePercent())
}
