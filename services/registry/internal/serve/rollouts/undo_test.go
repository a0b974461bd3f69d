package rollouts

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	holdv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/hold/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// What is held stays as it is, also on the way back, and the plan says so.
func TestThePlanOfAnUndoLeavesOutWhatIsHeld(t *testing.T) {
	t.Parallel()
	f := newFleet(t, 3)
	in := bringing()
	in.GetRollout().Strategy = nil
	id := f.start(in)
	f.succeeds(id)
	f.Fact(ledger.Hold, "h", &holdv1.Hold{Agent: "web", On: &intentv1.Selector{Servers: []string{f.servers[1]}}})
	p := f.plan(undoOf(id, nil))
	reasons := p.GetSteps()[0].GetReasons()
	if p.Refusal != nil || len(p.Targets) != 2 || len(reasons) != 1 || reasons[0].GetCode() != code.Held {
		t.Errorf("%d servers go back, with %v (%v); want 2, and one held", len(p.Targets), reasons, p.Refusal)
	}
}
