package registry

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestServersThatGetTheLabelJoinARolloutWhileItRunsAndAsLongAfterAsItSays(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 7)
	gold := func(ids ...string) {
		for _, id := range ids {
			s.append(fact(ledger.Server, id, &serverv1.Changed{Labels: map[string]string{"tier": "gold"}}))
		}
	}
	ids := s.serverIDs()
	gold(ids[:4]...)
	in := waves(&rolloutv1.Strategy{JoinFor: durationpb.New(time.Hour)})
	in.GetRollout().On = &intentv1.Selector{Labels: map[string]string{"tier": "gold"}}
	id := s.accepted(topology.VerbRollout, in).Id
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE)
	gold(ids[4])
	s.image("web", "1.2.0", "release") // who joins gets what the others get, and not what is newest
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	if have := s.versions(); have["1.1.0"] != 5 || have["1.0.0"] != 2 {
		t.Fatalf("versions %v; want the one that came while it ran to have joined", have)
	}
	before := len(s.rollout(id).Waves)
	gold(ids[5])
	s.eventually("the one that came later has joined", nil, func() bool {
		r, _ := s.r.records.View.Rollout(id)
		target, _ := s.r.records.View.Target(id, ids[5])
		return target.GetState() == rolloutv1.TargetState_TARGET_STATE_SUCCEEDED &&
			r.State == rolloutv1.State_STATE_SUCCEEDED
	})
	r := s.rollout(id)
	if have := s.versions(); have["1.1.0"] != 6 || len(r.Waves) != before+1 || r.Waves[before].PassedAt == nil {
		t.Errorf("versions %v, waves %v", have, r.Waves)
	}
	q := &registryv1.ReplayRolloutRequest{RolloutId: id}
	replayed := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", q)
	if replayed.Same != replayed.Recorded {
		t.Errorf("the replay differs: %v", replayed)
	}
}

func (s *site) serverIDs() (ids []string) {
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			ids = append(ids, server.Id)
		}
	})
	return ids
}
