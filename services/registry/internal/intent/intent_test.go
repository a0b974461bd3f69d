package intent_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// world is a view that a test writes into.
type world struct {
	*view.View
	last uint64
}

func (w *world) apply(noun ledger.Noun, key string, body proto.Message) {
	w.last++
	w.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(int64(w.last), 0), Sequence: w.last})
}

// fleet is n servers and one agent with one image.
func fleet(n int) *world {
	w := &world{View: view.New()}
	linux := &serverv1.Platform{Os: "linux", Arch: "amd64"}
	w.apply(ledger.Agent, "web", &agentv1.Created{Agent: &agentv1.Agent{Kind: agentv1.Kind_KIND_DAEMON}})
	w.apply(ledger.Channel, "release", &channelv1.Created{Default: true})
	m := &imagev1.Manifest{Id: "image", Agent: "web", Version: "1.0.0", Kind: agentv1.Kind_KIND_DAEMON, Platform: linux}
	w.apply(ledger.Image, "image", &imagev1.Created{Manifest: m})
	w.apply(ledger.Image, "image", &imagev1.Filled{})
	w.apply(ledger.Image, "image", &imagev1.Activated{})
	w.apply(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: "image"})
	for i := range n {
		id := ident.From("server", fmt.Sprint(i))
		w.apply(ledger.Server, id, &serverv1.Invited{Name: fmt.Sprintf("s%d", i), Cell: "main"})
		w.apply(ledger.Server, id, &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{Platform: linux}})
	}
	return w
}

func installAll() intent.Ask {
	return intent.Ask{
		ID: ident.From("intent"), Actor: "alice", Verb: "install", At: time.Unix(99, 0),
		Intent: &intentv1.Intent{
			Ask: &intentv1.Intent_Install{Install: &intentv1.Install{Agent: "web", On: &intentv1.Selector{All: true}}},
		},
	}
}

func TestARepeatedDecisionMakesTheSameFactsUnderTheSameIDs(t *testing.T) {
	w := fleet(3)
	first, second := intent.Decide(w, installAll()), intent.Decide(w, installAll())
	for n := range first.Drafts {
		a, b := first.Drafts[n], second.Drafts[n]
		if a.ID != b.ID || a.Subject() != b.Subject() || a.Guard != b.Guard || !proto.Equal(a.Body, b.Body) {
			t.Errorf("draft %d: %v, then %v", n, a, b)
		}
	}
}

func TestEveryFactIsGuardedAndTheAnswerIsLast(t *testing.T) {
	d := intent.Decide(fleet(3), installAll())
	for _, draft := range d.Drafts {
		want := ledger.Guard{Subject: ledger.KeySubject(draft.Noun, draft.Key)}
		if diff := cmp.Diff(want, draft.Guard); diff != "" {
			t.Errorf("%s: %s", draft.Subject(), diff)
		}
	}
	if last := d.Drafts[len(d.Drafts)-1]; last.Noun != ledger.Intent || last.Name() != "accepted" {
		t.Errorf("the last is %s; want the answer", last.Subject())
	}
}

// cutOff records the first n changes of a decision, as when a registry is killed in between.
func cutOff(w *world, n int) {
	for _, d := range intent.Decide(w, installAll()).Drafts[:n] {
		w.apply(d.Noun, d.Key, d.Body)
	}
}

func TestAnInterruptedIntentIsCompleted(t *testing.T) {
	w := fleet(5)
	cutOff(w, 2)
	again := installAll()
	again.Again = true

	d := intent.Decide(w, again)

	answer := d.Drafts[len(d.Drafts)-1].Body.(*intentv1.Accepted)
	if len(d.Drafts) != 3+1 || answer.Changed != 5 || answer.Already != 0 {
		t.Errorf("%d drafts, changed %d, already %d; want 3 more changes and 5 changed in all", len(d.Drafts),
			answer.Changed, answer.Already)
	}
}

func TestAnIntentThatHasBegunIsNotRefused(t *testing.T) {
	w := fleet(5)
	cutOff(w, 2)
	w.apply(ledger.Image, "image", &imagev1.Disabled{Reason: "leaks"})
	again := installAll()
	again.Again = true

	d := intent.Decide(w, again)

	if d.Refusal != nil || d.Changed != 2 || len(d.Drafts) != 1 {
		t.Errorf("refusal %v, changed %d, %d drafts; want what has begun accepted, and no more of it", d.Refusal,
			d.Changed, len(d.Drafts))
	}
	other := installAll()
	other.ID, other.Again = ident.From("other"), true
	if d := intent.Decide(w, other); d.Refusal.GetCode() != "NOT_ACTIVE" {
		t.Errorf("another intent: %v; want NOT_ACTIVE", d.Refusal)
	}
}

func TestAnInstallDuringARemovalWantsTheSameInstanceAgain(t *testing.T) {
	w := fleet(1)
	cutOff(w, 1)
	var i *instancev1.Instance
	for _, i = range w.Instances(view.InstanceFilter{}, "") {
	}
	w.apply(ledger.Instance, ledger.Key(i.ServerId, "web"), &instancev1.Unwanted{InstanceId: i.Id, Generation: 2})
	ask := installAll()
	ask.ID = ident.From("other")

	d := intent.Decide(w, ask)

	want := d.Drafts[0].Body.(*instancev1.Wanted)
	if want.InstanceId != i.Id || want.Generation != 3 || d.Drafts[0].Guard.Sequence != w.last {
		t.Errorf("wants %v under %v", want, d.Drafts[0].Guard)
	}
}

func BenchmarkDecideForTenThousandServers(b *testing.B) {
	w := fleet(10_000)
	for b.Loop() {
		intent.Decide(w, installAll())
	}
}
