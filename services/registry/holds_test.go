package registry

import (
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// holdSite is a site with three servers and an agent at version 1.0.0, of which 1.1.0 is active.
func holdSite(t *testing.T) (s *site, servers []string) {
	s = start(t)
	s.channel("release", true)
	s.agent("beacon")
	s.image("beacon", "1.0.0", "release")
	for _, name := range []string{"web-1", "web-2", "db-1"} {
		servers = append(servers, s.server(name))
	}
	s.accepted(topology.VerbInstall, &intentv1.Intent{Note: "OPS-1", Ask: &intentv1.Intent_Install{
		Install: &intentv1.Install{Agent: "beacon", On: &intentv1.Selector{All: true}},
	}})
	s.image("beacon", "1.1.0", "release")
	return s, servers
}

func TestTheNoteOfAnIntentIsInTheLedger(t *testing.T) {
	t.Parallel()
	s, _ := holdSite(t)
	r := must[*registryv1.ListIntentsResponse](s, "ListIntents", &registryv1.ListIntentsRequest{})
	if len(r.Intents) != 1 || r.Intents[0].Intent.GetNote() != "OPS-1" {
		t.Errorf("have %v", r.Intents)
	}
	long := &intentv1.Intent{Note: "two\nlines", Ask: &intentv1.Intent_Upgrade{
		Upgrade: &intentv1.Upgrade{Agent: "beacon", On: on("web-1")},
	}}
	if refused := s.outcome(s.publish(topology.VerbUpgrade, long)); refused.Refusal.GetCode() != code.BadNote {
		t.Errorf("have %v, want %s", refused, code.BadNote)
	}
}

// The rows of an answer are filled again for later ones.
func TestAListShowsNothingOfAnotherOne(t *testing.T) {
	t.Parallel()
	s, _ := holdSite(t)
	must[*registryv1.SetHoldResponse](s, "SetHold", &registryv1.SetHoldRequest{Agent: "beacon", On: on("web-1")})
	list := func(server string) (*registryv1.ListInstancesResponse, error) {
		return ask[*registryv1.ListInstancesResponse](s, "ListInstances",
			&registryv1.ListInstancesRequest{Server: server})
	}
	var each sync.WaitGroup
	defer each.Wait()
	for _, server := range []string{"web-1", "web-2", ""} {
		want, err := list(server)
		if err != nil || len(want.Instances) == 0 {
			t.Fatalf("list of %q: %v, %v", server, want, err)
		}
		each.Go(func() {
			for range 100 {
				if have, err := list(server); err != nil || !proto.Equal(have, want) {
					t.Errorf("list of %q: %v, %v; want %v", server, have, err, want)
					return
				}
			}
		})
	}
}
