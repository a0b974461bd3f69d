package intent_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

const candidate = "process/7-8"

func adoptAsk(server, candidate, agent string) intent.Ask {
	a := installAll()
	a.Verb = "adopt"
	a.Intent = &intentv1.Intent{Ask: &intentv1.Intent_Adopt{Adopt: &intentv1.Adopt{
		Server: server, Candidate: candidate, Agent: agent,
	}}}
	return a
}

func releaseAsk(server string) intent.Ask {
	a := installAll()
	a.ID, a.Verb = ident.From("release"), "release"
	a.Intent = &intentv1.Intent{Ask: &intentv1.Intent_Release{Release: &intentv1.Release{Server: server, Agent: "web"}}}
	return a
}

// body returns the one fact of a decision before its answer, of a type.
func body[T proto.Message](t *testing.T, d intent.Decision) (out T) {
	t.Helper()
	if d.Refusal != nil || len(d.Drafts) != 2 {
		t.Fatalf("%d facts, refused with %v", len(d.Drafts), d.Refusal)
	}
	out, ok := d.Drafts[0].Fact.Body.(T)
	if !ok {
		t.Fatalf("the fact is %v", d.Drafts[0].Fact.Body)
	}
	return out
}

// apply writes the facts of a decision into the view.
func (w *world) decided(d intent.Decision) {
	for _, draft := range d.Drafts {
		w.apply(draft.Fact.Noun, draft.Fact.Key, draft.Fact.Body)
	}
}

func TestAnAdoptionWantsTheCandidateAndAReleaseLeavesIt(t *testing.T) {
	w := fleet(1)
	adopt := intent.Decide(w, adoptAsk("s0", candidate, "web"))
	wanted := body[*instancev1.Wanted](t, adopt)
	if wanted.AdoptCandidate != candidate || wanted.Image.GetId() != "image" || wanted.Generation != 1 {
		t.Errorf("wanted %v", wanted)
	}
	w.decided(adopt)
	if r := intent.Decide(w, releaseAsk("s0")).Refusal; r.GetCode() != code.NotAdopted {
		t.Errorf("a release before the adoption: %v", r)
	}
	key := ledger.Key(ident.From("server", "0"), "web")
	w.apply(ledger.Instance, key, &instancev1.Adopted{
		InstanceId: wanted.InstanceId, Image: wanted.Image, Adoption: &serverv1.Adoption{Pid: 7},
	})
	again := adoptAsk("s0", candidate, "web")
	again.ID = ident.From("another")
	if r := intent.Decide(w, again).Refusal; r.GetCode() != code.AlreadyInstalled {
		t.Errorf("a second adoption: %v", r)
	}
	gone := body[*instancev1.Unwanted](t, intent.Decide(w, releaseAsk("s0")))
	if !gone.Release || gone.InstanceId != wanted.InstanceId || gone.Generation != 2 {
		t.Errorf("unwanted %v", gone)
	}
}

func TestAServiceIsACandidateToo(t *testing.T) {
	for _, unit := range []string{"unit/nginx.service", `unit/a\x2db@7.service`} {
		wanted := body[*instancev1.Wanted](t, intent.Decide(fleet(1), adoptAsk("s0", unit, "web")))
		if wanted.AdoptCandidate != unit {
			t.Errorf("wanted %v", wanted)
		}
	}
}

func TestWhatCannotBeAdoptedIsRefused(t *testing.T) {
	w := fleet(1)
	w.apply(ledger.Agent, "files", &agentv1.Created{Agent: &agentv1.Agent{Kind: agentv1.Kind_KIND_FILES}})
	linux := &serverv1.Platform{Os: "linux", Arch: "amd64"}
	w.apply(ledger.Image, "files", &imagev1.Created{Manifest: &imagev1.Manifest{
		Id: "files", Agent: "files", Version: "1.0.0", Platform: linux, Kind: agentv1.Kind_KIND_FILES,
	}})
	w.apply(ledger.Image, "files", &imagev1.Filled{})
	w.apply(ledger.Image, "files", &imagev1.Activated{})
	w.apply(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: "files"})
	for _, c := range []struct{ name, server, candidate, agent, want string }{
		{"no server", "", candidate, "web", code.EmptySelector},
		{"unknown server", "nowhere", candidate, "web", code.UnknownServer},
		{"unknown agent", "s0", candidate, "wep", code.UnknownAgent},
		{"half an id", "s0", "process/7", "web", code.NotAdoptable},
		{"a package", "s0", "dpkg/nginx", "web", code.NotAdoptable},
		{"a socket", "s0", "unit/nginx.socket", "web", code.NotAdoptable},
		{"a unit with a path", "s0", "unit/../nginx.service", "web", code.NotAdoptable},
		{"files", "s0", candidate, "files", code.NotAdoptable},
	} {
		d := intent.Decide(w, adoptAsk(c.server, c.candidate, c.agent))
		if d.Refusal.GetCode() != c.want || len(d.Drafts) != 1 {
			t.Errorf("%s: %v, want %s", c.name, d.Refusal, c.want)
		}
	}
	if r := intent.Decide(w, releaseAsk("s0")).Refusal; r == nil {
		t.Error("the release of an agent that is not there is accepted")
	}
	scan := installAll()
	scan.Verb = "refresh"
	scan.Intent = &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{
		On: &intentv1.Selector{All: true}, Scan: &serverv1.Scan{Detectors: []string{"../x"}},
	}}}
	if r := intent.Decide(w, scan).Refusal; r.GetCode() != code.UnknownDetector {
		t.Errorf("a detector with a path: %v", r)
	}
}
