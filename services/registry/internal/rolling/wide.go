package rolling

import (
	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// wide refuses a rollout that would change many servers at once, unless its intent says so: without stages it has one
// wave, and without a limit of concurrency it changes all of that wave before it sees what becomes of the first. An
// undo goes back to what was there.
func (p *planner) wide() *apiv1.Refusal {
	n := len(p.Targets)
	if c := int(p.Strategy.GetConcurrency()); c > 0 {
		n = min(n, c)
	}
	if n <= intent.MostAtOnce || len(p.Strategy.GetStages()) > 0 || p.ask.Intent.GetAtOnce() || p.Undoes != "" {
		return nil
	}
	return intent.TooWide("the rollout would, in one wave, "+p.Title, n, "the same command with "+intent.Waves+
		", of garrison up with --batch 10%; or with --at-once")
}
