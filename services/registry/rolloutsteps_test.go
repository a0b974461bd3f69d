package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// paired is a site whose servers run web 1.0.0 and db 1.0.0. Web 1.2.0 upgrades from 1.1.0 only, and requires db 1.1.0.
func paired(t *testing.T, servers int) *site {
	s := rolledOut(t, servers)
	s.agent("db")
	s.image("db", "1.0.0", "release")
	s.accepted(topology.VerbInstall, install("db", &intentv1.Selector{All: true}))
	s.eventually("db runs everywhere", nil, func() bool {
		running := 0
		for i := range s.r.records.View.InstancesOfAgent("db") {
			if i.State == instancev1.State_STATE_CONVERGED {
				running++
			}
		}
		return running == servers
	})
	s.image("db", "1.1.0", "release")
	s.image("web", "1.2.0", "release", func(m *imagev1.Manifest) {
		m.UpgradesFrom = []string{"1.1.0"}
		m.Requires = []*imagev1.Requirement{{Agent: "db", Versions: ">=1.1.0"}}
	})
	return s
}

func both() *intentv1.Intent {
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().Steps = append(in.GetRollout().Steps, &intentv1.Step{
		Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "db"}},
	})
	return in
}

func (s *site) serverIDs() (ids []string) {
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			ids = append(ids, server.Id)
		}
	})
	return ids
}

func TestAnIntentOfItsOwnNeitherWalksNorBreaksAPair(t *testing.T) {
	t.Parallel()
	s := paired(t, 1)
	up := func(agent, version string) *intentv1.Intent {
		return &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
			Agent: agent, On: &intentv1.Selector{All: true},
			Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}},
		}}}
	}
	far := s.outcome(s.publish(topology.VerbUpgrade, up("web", "1.2.0")))
	if far.Refusal.GetCode() != code.NoUpgradePath {
		t.Errorf("from 1.0.0 to 1.2.0: %v", far.Refusal)
	}
	s.accepted(topology.VerbUpgrade, up("web", "1.1.0"))
	s.eventually("web is at 1.1.0", nil, func() bool {
		for i := range s.r.records.View.InstancesOfAgent("web") {
			return i.State == instancev1.State_STATE_CONVERGED && i.Wanted.Version == "1.1.0"
		}
		return false
	})
	lacking := s.outcome(s.publish(topology.VerbUpgrade, up("web", "1.2.0")))
	if lacking.Refusal.GetCode() != code.RequirementUnmet {
		t.Errorf("beside db 1.0.0: %v", lacking.Refusal)
	}
}
