package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// What is newer is what a plan of an upgrade would bring, and asking for it writes nothing.
func TestWhatIsAvailableIsWhatAnUpgradeWouldBring(t *testing.T) {
	t.Parallel()
	s, _ := installed(t, "web")
	s.channel("dev", false)
	s.append(fact(ledger.Environment, "lab",
		&environmentv1.Created{Environment: &environmentv1.Environment{Channel: "dev"}}))
	two := s.server("two")
	s.append(fact(ledger.Server, two, &serverv1.Changed{Environment: "lab"}))
	older := install("web", on("two"))
	older.GetInstall().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: "1.0.0"}}
	s.accepted("install", older)
	empty := must[*registryv1.ListAvailableResponse](s, "ListAvailable", &registryv1.ListAvailableRequest{})
	s.image("web", "1.1.0", "release")
	dev := s.image("web", "2.0.0", "dev")
	before := s.last()

	r := must[*registryv1.ListAvailableResponse](s, "ListAvailable",
		&registryv1.ListAvailableRequest{Environment: "lab"})

	if len(empty.Available) != 1 || empty.Available[0].Refusal.GetCode() != "NO_MATCH" {
		t.Errorf("%v; want that the channel dev has no image", empty.Available)
	}
	if len(r.Available) != 1 || r.Available[0].ImageId != dev || r.Available[0].Behind != 1 {
		t.Errorf("%v; want %s for one server of lab", r.Available, dev)
	}
	if after := s.last(); after != before {
		t.Errorf("the ledger ends at %d; want %d", after, before)
	}
}
