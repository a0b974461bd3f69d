package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
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

// wantedAt returns the ledger position at which a version was wanted of an agent last; 0 when it never was.
func (s *site) wantedAt(server, agent, version string) (at uint64) {
	for _, f := range s.facts(ledger.Instance, ledger.Key(server, agent)) {
		if b, ok := f.Body.(*instancev1.Wanted); ok && b.Image.GetVersion() == version {
			at = f.Sequence
		}
	}
	return at
}

func (s *site) serverIDs() (ids []string) {
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			ids = append(ids, server.Id)
		}
	})
	return ids
}

func TestARolloutGoesByWayOfOtherVersionsAndAnUndoGoesBackThatWay(t *testing.T) {
	t.Parallel()
	s := paired(t, 5)
	id := s.accepted(topology.VerbRollout, both()).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	for _, server := range s.serverIDs() {
		hop, end := s.wantedAt(server, "web", "1.1.0"), s.wantedAt(server, "web", "1.2.0")
		if needed := s.wantedAt(server, "db", "1.1.0"); hop == 0 || hop > end || needed == 0 || needed > end {
			t.Errorf("web 1.1.0 at %d, db 1.1.0 at %d, web 1.2.0 at %d", hop, needed, end)
		}
	}
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	undoing := s.accepted(topology.VerbRollout, undo).Id
	s.eventually("the undo succeeds", nil, s.is(undoing, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.0.0"] != 5 {
		t.Errorf("web versions %v", have)
	}
	for _, server := range s.serverIDs() {
		hop, needed := s.wantedAt(server, "web", "1.1.0"), s.wantedAt(server, "db", "1.0.0")
		end := s.wantedAt(server, "web", "1.2.0")
		if hop < end || needed < hop || s.wantedAt(server, "web", "1.0.0") < hop {
			t.Errorf("web 1.2.0 at %d, back to 1.1.0 at %d, db 1.0.0 at %d", end, hop, needed)
		}
	}
}

func TestAFailedStepBeginsNoLaterStep(t *testing.T) {
	t.Parallel()
	s := paired(t, 5)
	id := s.accepted(topology.VerbRollout, both()).Id
	s.eventually("it halts and the canary goes back", func(string) bool { return true }, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		for range s.r.records.View.Unrestored(id) {
			return false
		}
		return r.GetState() == rolloutv1.State_STATE_HALTED
	})
	for _, server := range s.serverIDs() {
		if at := s.wantedAt(server, "web", "1.2.0"); at != 0 {
			t.Errorf("web 1.2.0 was wanted at %d", at)
		}
	}
	if have := s.versions(); have["1.0.0"] != 5 {
		t.Errorf("web versions %v", have)
	}
}

// The servers that the halt took back stay at the last version that succeeded, until the rollout is undone.
func TestAnUndoTakesBrokenServersBackBeforeTheVersionsThatTheyCameBy(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	s.image("web", "1.2.0", "release", func(m *imagev1.Manifest) { m.UpgradesFrom = []string{"1.1.0"} })
	id := s.accepted(topology.VerbRollout, inOneWave(&rolloutv1.Strategy{})).Id
	for _, i := range s.wantsOnAll(2, "1.1.0") {
		s.append(worked(i, false)...)
	}
	for _, i := range s.wantsOnAll(2, "1.2.0") {
		s.append(worked(i, true)...)
	}
	s.eventually("it halts and its servers go back", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetState() == rolloutv1.State_STATE_HALTED && s.converged("web") == 2 &&
			s.r.records.View.CountUnrestored(id) == 0
	})
	if have := s.versions(); have["1.1.0"] != 2 {
		t.Fatalf("versions %v; want 1.1.0 on both", have)
	}
	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	undoing := s.accepted(topology.VerbRollout, undo).Id
	s.eventually("the undo succeeds", nil, s.is(undoing, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.0.0"] != 2 {
		t.Errorf("versions %v; want 1.0.0 on both", have)
	}
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
