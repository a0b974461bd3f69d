package rolling

import (
	"google.golang.org/protobuf/proto"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// oneWave returns how many servers a rollout changes before it sees what becomes of the first, or 0 when its intent
// allows that, or there are few. Without stages it has one wave, and changes all of it unless its concurrency is lower.
func (p placing) oneWave(servers int) int {
	n := servers
	if c := int(p.Strategy.GetConcurrency()); c > 0 {
		n = min(n, c)
	}
	if n <= intent.MostAtOnce || len(p.Strategy.GetStages()) > 0 || p.ask.Intent.GetAtOnce() {
		return 0
	}
	return n
}

// wide refuses a rollout that would change many servers at once, unless its intent says so.
func (p placing) wide() *apiv1.Refusal {
	n := p.oneWave(len(p.Targets))
	if n == 0 {
		return nil
	}
	return intent.TooWide("the rollout would, in one wave, "+p.Title, n, "the same command with "+intent.Waves)
}

// stageUndo divides the undo of many servers into waves when neither its request nor what it undoes has any. A refusal
// would cost time when time counts most.
func (p placing) stageUndo() {
	if p.Undoes == "" || p.oneWave(len(p.byServer)) == 0 {
		return
	}
	next := proto.CloneOf(p.Strategy)
	if next == nil {
		next = &rolloutv1.Strategy{}
	}
	next.Stages = []*rolloutv1.Stage{
		{Size: &rolloutv1.Stage_Servers{Servers: 3}},
		{Size: &rolloutv1.Stage_Percent{Percent: 10}},
		{Size: &rolloutv1.Stage_Percent{Percent: 50}},
	}
	p.Strategy = next
}
