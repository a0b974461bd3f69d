package registry

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// members is a site with so many servers in environment prod that are online and lack web 1.0.0.
func members(t *testing.T, servers int) (s *site, ids []string) {
	s = startBeating(t, time.Hour)
	s.agent("web")
	s.channel("release", true)
	s.channel("stable", false)
	s.image("web", "1.0.0", "release")
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment", &registryv1.CreateEnvironmentRequest{
		Environment: &environmentv1.Environment{Name: "prod"},
	})
	var drafts []ledger.Draft
	for n := range servers {
		id := ident.New()
		ids = append(ids, id)
		drafts = append(drafts,
			fact(ledger.Server, id, &serverv1.Invited{Name: fmt.Sprint("s", n), Cell: "main", Environment: "prod"}),
			fact(ledger.Server, id, &serverv1.Enrolled{
				Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}},
			}))
	}
	for part := range slices.Chunk(drafts, topology.MaxBatch) {
		s.append(part...)
	}
	s.comeOnline()
	return s, ids
}

// bringing is a rollout that installs web in prod in two waves, and ends with changes.
func bringing(approve bool, then ...*rolloutv1.Standing) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{
		Steps: []*intentv1.Step{{Change: &intentv1.Step_Install{Install: &intentv1.Install{Agent: "web"}}}},
		On:    &intentv1.Selector{Environment: "prod"},
		Strategy: &rolloutv1.Strategy{Approve: approve, Stages: []*rolloutv1.Stage{
			{Size: &rolloutv1.Stage_Canaries{Canaries: 1}},
		}},
		Then: then,
	}}}
}

func thenDefault(values map[string]string) *rolloutv1.Standing {
	return &rolloutv1.Standing{Change: &rolloutv1.Standing_Default{
		Default: &rolloutv1.StandingDefault{Environment: "prod", Agent: "web", Metadata: values},
	}}
}

func (s *site) defaultOf(agent string) (d *environmentv1.Default) {
	s.r.follower.Read(func() {
		e, _ := s.r.records.View.Environment("prod")
		d = proto.CloneOf(e.GetDefaults()[agent])
	})
	return d
}

func TestARolloutRecordsADefaultOnceEveryWavePassedAndItsUndoTakesItBack(t *testing.T) {
	t.Parallel()
	s, ids := members(t, 4)
	id := s.accepted(topology.VerbRollout, bringing(true, thenDefault(map[string]string{"level": "debug"}))).Id
	s.eventually("the first wave passed", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		return r.GetWaves()[0].GetPassedAt() != nil
	})
	early := s.join("early", "prod")
	s.settled(s.r)
	if s.defaultOf("web") != nil || s.wanted(early, "web") {
		t.Errorf("the default holds before every wave passed")
	}
	must[*registryv1.ControlRolloutResponse](s, "ControlRollout", &registryv1.ControlRolloutRequest{
		RolloutId: id, Control: registryv1.RolloutControl_ROLLOUT_CONTROL_APPROVE,
	})
	s.eventually("the rollout succeeded", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	s.eventually("its default is recorded", nil, func() bool {
		e, _ := s.r.records.View.Environment("prod")
		return e.GetDefaults()["web"] != nil
	})
	d := s.defaultOf("web")
	if d.GetRolloutId() != id || d.GetReach() != environmentv1.Reach_REACH_ALL || d.GetActor() != "alice" {
		t.Fatalf("the default is %v; want one for all servers by rollout %s and alice", d, id)
	}
	late := s.join("late", "prod")
	s.untilInstalled("web", early, late)
	for _, server := range append([]string{late}, ids...) {
		if have := s.valueOf(server, "level"); have != "debug" {
			t.Errorf("web on %s has level %q; want the value of the default", server, have)
		}
	}

	undo := &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: &intentv1.Rollout{UndoOf: id}}}
	s.accepted(topology.VerbRollout, undo)
	if d := s.defaultOf("web"); d != nil {
		t.Errorf("the undo left the default %v", d)
	}
}

func (s *site) valueOf(server, name string) (value string) {
	s.r.follower.Read(func() {
		i, _ := s.r.records.View.Instance(server, "web")
		value = i.GetConfiguration().GetMetadata()[name]
	})
	return value
}

// A default that a rollout brought is not an order to install at once: what the rollout owes comes with its gates.
func TestADefaultOfARolloutLeavesServersThatAreOwedToTheRollout(t *testing.T) {
	t.Parallel()
	s, ids := members(t, 3)
	offline := ids[0]
	s.append(fact(ledger.Server, offline, &serverv1.Offline{}))
	id := s.accepted(topology.VerbRollout, bringing(false, thenDefault(nil))).Id
	s.eventually("the rollout succeeded", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	s.settled(s.r)
	if s.wanted(offline, "web") {
		t.Error("the default installed on a server that the rollout owes")
	}
	s.append(fact(ledger.Server, offline, &serverv1.Online{}))
	s.eventually("the rollout served the server that it owed", nil, func() bool {
		x, _ := s.r.records.View.Target(id, offline)
		return x.GetState() == rolloutv1.TargetState_TARGET_STATE_SUCCEEDED
	})
}

// ended returns the fact of a rollout's success.
func (s *site) ended(id string) (b *rolloutv1.Succeeded) {
	s.t.Helper()
	for _, f := range s.facts(ledger.Rollout, id) {
		if succeeded, ok := f.Body.(*rolloutv1.Succeeded); ok {
			b = succeeded
		}
	}
	if b == nil {
		s.t.Fatalf("rollout %s has not succeeded", id)
	}
	return b
}
