package registry

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestAnIntentIsAcceptedTogetherWithWhatItChanges(t *testing.T) {
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	one, two := s.server("one"), s.server("two")

	r := s.accepted(topology.VerbInstall, install("web", on("one", "two")))

	if r.Changed != 2 || len(r.ServerIds) != 2 {
		t.Errorf("changed %d servers, named %v; want 2", r.Changed, r.ServerIds)
	}
	answer := s.facts(ledger.Intent, r.Id)
	want := append(s.facts(ledger.Instance, ledger.Key(one, "web")), s.facts(ledger.Instance, ledger.Key(two, "web"))...)
	if diff := cmp.Diff([]string{"wanted", "wanted"}, names(want)); diff != "" {
		t.Fatal(diff)
	}
	for _, f := range want {
		if f.Sequence < answer[0].Sequence-2 || f.Cause != ledger.CausedByIntent(r.Id) || f.Actor != "alice" {
			t.Errorf("fact at %d by %s because of %s; want it in one unit with the answer at %d", f.Sequence, f.Actor, f.Cause, answer[0].Sequence)
		}
	}
}
