package drift

import (
	"cmp"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/noun/environment"
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
)

// Widens reports whether a change of an environment lets executors heal what they do not heal before it: its policy
// becomes to heal, or its brake allows more.
func Widens(have, next *environmentv1.Environment) bool {
	const heal = environmentv1.DriftPolicy_DRIFT_POLICY_HEAL
	if environment.DriftPolicy(next) != heal {
		return false
	}
	return environment.DriftPolicy(have) != heal || environment.DriftBrake(next) > environment.DriftBrake(have)
}

// MovesTooWide refuses to move more drifting servers than most at once to an environment that heals them, of which nil
// stands for none. The command repair repairs them in waves.
func MovesTooWide(to *environmentv1.Environment, drifting, most int, flags, repair string) *apiv1.Refusal {
	if drifting <= most || environment.DriftPolicy(to) != environmentv1.DriftPolicy_DRIFT_POLICY_HEAL {
		return nil
	}
	name := cmp.Or(to.GetName(), "none")
	return &apiv1.Refusal{
		Code: code.TooWide,
		Message: fmt.Sprintf("agents on %d of the servers drift, and environment %s would heal them at once; %d are "+
			"allowed", drifting, name, most),
		Try: fmt.Sprintf("%s, and then the move; or garrison server move %s --env %s --at-once", repair, flags, name),
	}
}

// TooWide refuses to have more servers than most healed at once; nil when fewer drift. The command repair repairs them
// in waves, by a task with a health check for each.
func TooWide(name string, c Count, most int, repair string) *apiv1.Refusal {
	if int(c.Drifting) <= most {
		return nil
	}
	return &apiv1.Refusal{
		Code: code.TooWide,
		Message: fmt.Sprintf("agents on %d of %d online servers of environment %q drift, and would be healed at once; "+
			"%d are allowed", c.Drifting, c.Online, name, most),
		Try: repair + ", and then this again",
	}
}
