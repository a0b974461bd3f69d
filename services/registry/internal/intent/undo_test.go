package intent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// did decides an intent, ends its tasks well, and returns its id.
func (w *world) did(t *testing.T, verb string, i *intentv1.Intent) string {
	t.Helper()
	d := w.decide(verb, i)
	if d.Refusal != nil {
		t.Fatalf("%s: %v", verb, d.Refusal)
	}
	for i := range w.InstancesOfAgent("web") {
		if i.TaskState == taskv1.State_STATE_UNSPECIFIED {
			w.task(i, &taskv1.Succeeded{})
		}
	}
	return d.Drafts[len(d.Drafts)-1].Key
}

// undo decides an undo of an intent, and folds what it changes.
func (w *world) undo(id string) intent.Decision {
	past, _ := w.Intent(id)
	ask := intent.Ask{
		ID: ident.From("undo", fmt.Sprint(w.last)), Actor: "alice", Verb: "undo", At: time.Unix(99, 0), Undone: past,
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: id}}},
	}
	d := intent.Decide(w, ask)
	for _, draft := range d.Drafts {
		w.apply(draft.Noun, draft.Key, draft.Body)
	}
	return d
}

func removeAll() *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: "web", On: everywhere}}}
}

// state is what is wanted of an instance: its version and its own values.
func (w *world) state(n int) string {
	i := w.on(n)
	if i.GetWanted() == nil {
		return "not wanted"
	}
	return fmt.Sprintf("%s %v", i.Wanted.Version, i.Configuration.GetMetadata())
}

func TestAnUndoRestoresTheStateBefore(t *testing.T) {
	for _, c := range []struct {
		name, verb string
		intent     *intentv1.Intent
	}{
		{"an upgrade to a version of another channel", "upgrade",
			&intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
				Agent: "web", On: everywhere, Image: &intentv1.ImageChoice{
					By: &intentv1.ImageChoice_ImageId{ImageId: "two"},
				},
			}}}},
		{"a configure", "configure", configure(values{"a": "z"}, "b")},
		{"a removal", "remove", removeAll()},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := running(t, 3)
			w.image("two", "2.0.0")
			w.did(t, "configure", configure(values{"a": "x", "b": "y"}))
			w.agentValues(values{"layer": "later"}) // an undo must not bring it
			before := w.state(0)
			id := w.did(t, c.verb, c.intent)
			if w.state(0) == before {
				t.Fatal("it changed nothing")
			}
			if d := w.undo(id); d.Refusal != nil || d.Changed != 3 {
				t.Fatalf("%v, changed %d", d.Refusal, d.Changed)
			}
			if diff := cmp.Diff(before, w.state(0)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnUndoOfAnInstallRemovesTheAgent(t *testing.T) {
	w := fleet(2)
	id := w.did(t, "install", installAll().Intent)
	if d := w.undo(id); d.Changed != 2 || w.state(0) != "not wanted" {
		t.Errorf("%v, changed %d: %s", d.Refusal, d.Changed, w.state(0))
	}
}

func TestARemovalIsUndoneAfterTheInstanceIsGone(t *testing.T) {
	w := running(t, 2)
	id := w.did(t, "remove", removeAll())
	for n := range 2 {
		w.apply(ledger.Instance, ledger.Key(w.on(n).ServerId, "web"), &instancev1.Gone{InstanceId: w.on(n).Id})
	}
	if d := w.undo(id); d.Changed != 2 || w.state(0) != "1.0.0 map[]" {
		t.Errorf("%v, changed %d: %s", d.Refusal, d.Changed, w.state(0))
	}
}

func TestAnUndoCanBeUndone(t *testing.T) {
	w := running(t, 2)
	w.image("two", "2.0.0")
	id := w.did(t, "upgrade", upgradeAll())
	d := w.undo(id)
	for n := range 2 {
		w.task(w.on(n), &taskv1.Succeeded{})
	}
	if back := w.undo(d.Drafts[len(d.Drafts)-1].Key); back.Changed != 2 || w.state(0) != "2.0.0 map[]" {
		t.Errorf("%v, changed %d: %s", back.Refusal, back.Changed, w.state(0))
	}
}

func TestAnUndoLeavesOutWhatAnotherIntentChangedSince(t *testing.T) {
	w := running(t, 3)
	w.image("two", "2.0.0")
	id := w.did(t, "upgrade", upgradeAll())
	one := configure(values{"a": "b"})
	one.GetConfigure().On = &intentv1.Selector{Servers: []string{"s1"}}
	w.did(t, "configure", one)

	d := w.undo(id)

	a := d.Drafts[len(d.Drafts)-1].Body.(*intentv1.Accepted)
	if a.GetChanged() != 2 || a.GetLeftOut() != 1 || a.Reasons[0].Code != "CHANGED_SINCE" ||
		a.Reasons[0].ServerIds[0] != w.on(1).ServerId {
		t.Errorf("%v; want two changed and s1 left out", a)
	}
	if w.state(1) != "2.0.0 map[a:b]" {
		t.Errorf("s1 is %s", w.state(1))
	}
}

func TestAnImpossibleUndoIsRefused(t *testing.T) {
	w := running(t, 1)
	w.image("two", "2.0.0")
	id := w.did(t, "upgrade", upgradeAll())
	w.apply(ledger.Image, "image", &imagev1.Disabled{})
	w.apply(ledger.Image, "image", &imagev1.Deleted{})
	if d := w.undo(id); d.Refusal.GetCode() != "NO_MATCH" {
		t.Errorf("the image before is deleted: %v", d.Refusal)
	}
	if d := w.undo("nothing"); d.Refusal.GetCode() != "NOT_FOUND" {
		t.Errorf("an unknown one: %v", d.Refusal)
	}
	refresh := w.did(t, "refresh",
		&intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: everywhere}}})
	if d := w.undo(refresh); d.Refusal.GetCode() != "NOT_UNDOABLE" {
		t.Errorf("a refresh: %v", d.Refusal)
	}
}

func TestAnInterruptedUndoIsCompleted(t *testing.T) {
	w := running(t, 4)
	w.image("two", "2.0.0")
	past, _ := w.Intent(w.did(t, "upgrade", upgradeAll()))
	ask := intent.Ask{
		ID: ident.From("undo"), Actor: "alice", Verb: "undo", At: time.Unix(99, 0), Undone: past,
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Undo{Undo: &intentv1.Undo{IntentId: past.Id}}},
	}
	ask.Intent = intent.Plan(w, ask).Intent
	for _, d := range intent.Decide(w, ask).Drafts[:2] {
		w.apply(d.Noun, d.Key, d.Body)
	}
	ask.Again = true
	if d := intent.Decide(w, ask); d.Refusal != nil || d.Changed != 4 || len(d.Drafts) != 2+1 {
		t.Errorf("%v, changed %d, %d drafts", d.Refusal, d.Changed, len(d.Drafts))
	}
}
