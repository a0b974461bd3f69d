package intent_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

func again(version string) *intentv1.Intent {
	in := upgradeAll()
	in.GetUpgrade().Again = true
	if version != "" {
		in.GetUpgrade().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	}
	return in
}

func TestARestartBringsWhatEachServerHasAgain(t *testing.T) {
	w := running(t, 2)
	w.image("two", "2.0.0")
	w.agentValues(values{"layer": "later"}) // a restart must not bring it
	before := w.state(0)
	id := w.did(t, "upgrade", again(""))
	if i := w.on(0); w.state(0) != before || i.Generation != 2 || i.IntentId != id {
		t.Errorf("%s at generation %d, want %s at generation 2", w.state(0), i.Generation, before)
	}
	if d := w.undo(id); d.Refusal.GetCode() != code.NotUndoable {
		t.Errorf("its undo: %v, want %s", d.Refusal, code.NotUndoable)
	}
}

func TestAnUpgradeBringsTheSameImageOnlyAgain(t *testing.T) {
	w := running(t, 2)
	named := again("1.0.0")
	named.GetUpgrade().Again = false
	if d := w.decide("upgrade", named); d.Changed != 0 {
		t.Errorf("%d servers change, want none", d.Changed)
	}
	if d := w.decide("upgrade", again("1.0.0")); d.Changed != 2 {
		t.Errorf("%d servers change again, want 2: %v", d.Changed, d.Refusal)
	}
}

func TestAnUndoReachesAChangeThatWasRestartedSince(t *testing.T) {
	w := running(t, 2)
	w.image("two", "2.0.0")
	up := again("2.0.0")
	up.GetUpgrade().Again = false
	before := w.state(0)
	id := w.did(t, "upgrade", up)
	for range 2 {
		w.did(t, "upgrade", again(""))
	}
	if d := w.undo(id); d.Refusal != nil || d.Changed != 2 || w.state(0) != before {
		t.Errorf("%d servers change, %v; the first has %s, want %s", d.Changed, d.Refusal, w.state(0), before)
	}
}

// It would bring the new version a second time after its task ended badly.
func TestARestartLeavesOutWhatAnUpgradeIsChanging(t *testing.T) {
	w := running(t, 2)
	w.image("two", "2.0.0")
	up := again("2.0.0")
	up.GetUpgrade().Again = false
	w.decide("upgrade", up)
	d := w.plan(again(""))
	if d.Changed != 0 || d.LeftOut != 2 || d.Reasons[0].Code != code.ChangeRuns {
		t.Errorf("%d servers change and %d are left out, %v; want 0, and 2 with %s", d.Changed, d.LeftOut, d.Reasons,
			code.ChangeRuns)
	}
}

func TestNoIntentStartsTheExecutorAgain(t *testing.T) {
	w := running(t, 1)
	w.apply(ledger.Agent, "executor", &agentv1.Created{Agent: &agentv1.Agent{Kind: agentv1.Kind_KIND_SELF}})
	in := again("")
	in.GetUpgrade().Agent = "executor"
	if d := w.decide("upgrade", in); d.Refusal.GetCode() != code.UnsupportedKind {
		t.Errorf("%v, want %s", d.Refusal, code.UnsupportedKind)
	}
}
