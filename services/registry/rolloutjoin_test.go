package registry

import (
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/rollouts"
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

func TestAServerJoinsTheLastWaveUntilItBeginsAndThenOneBehindIt(t *testing.T) {
	t.Parallel()
	at := time.Unix(1000, 0)
	open, passed := &rolloutv1.Wave{OpenedAt: timestamppb.New(at)}, &rolloutv1.Wave{
		OpenedAt: timestamppb.New(at), PassedAt: timestamppb.New(at),
	}
	later := &rolloutv1.Strategy{JoinFor: durationpb.New(time.Minute)}
	const running, succeeded = rolloutv1.State_STATE_RUNNING, rolloutv1.State_STATE_SUCCEEDED
	rolledOut := func(s rolloutv1.State, waves ...*rolloutv1.Wave) *rolloutv1.Rollout {
		since := timestamppb.New(at)
		return &rolloutv1.Rollout{State: s, Since: since, FirstSucceededAt: since, Waves: waves}
	}
	undo, late := rolledOut(running, &rolloutv1.Wave{}), rolledOut(succeeded, passed)
	undo.Undoes, late.Strategy = "r", later
	again := proto.CloneOf(late)
	again.Since = timestamppb.New(at.Add(time.Minute)) // because of a server that joined
	for name, c := range map[string]struct {
		r     *rolloutv1.Rollout
		after time.Duration
		want  uint32
	}{
		"before the last wave":   {rolledOut(running, open, &rolloutv1.Wave{}), time.Second, 2},
		"during the last wave":   {rolledOut(running, passed, open), time.Second, 0},
		"after the last wave":    {rolledOut(running, passed, passed), time.Second, 3},
		"while it is paused":     {rolledOut(rolloutv1.State_STATE_PAUSED, &rolloutv1.Wave{}), time.Second, 0},
		"an undo":                {undo, time.Second, 0},
		"without a wave":         {rolledOut(running), time.Second, 0},
		"after its success":      {rolledOut(succeeded, passed), time.Second, 0},
		"as long as it says":     {late, time.Second, 2},
		"longer than it says":    {late, time.Hour, 0},
		"from its first success": {again, time.Minute, 0},
		"with the most waves":    {rolledOut(running, make([]*rolloutv1.Wave, 200)...), time.Second, 0},
	} {
		if have := rolling.JoinsAt(c.r, at.Add(c.after)); have != c.want {
			t.Errorf("%s: wave %d; want %d", name, have, c.want)
		}
	}
}

func TestServersThatJoinAreLookedForAfterAPauseUnlessTheFactIsRecorded(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	in, ids := waves(&rolloutv1.Strategy{}), s.serverIDs()
	in.GetRollout().On = &intentv1.Selector{Servers: ids[:1]}
	id := s.accepted(topology.VerbRollout, in).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	in.GetRollout().On = &intentv1.Selector{All: true}
	r := proto.CloneOf(s.rollout(id))
	r.Strategy.JoinFor = durationpb.New(time.Hour)
	w := rollouts.NewWork(s.r.records, s.r.lookup, nil, zerolog.Nop())
	run := rolling.Run{Rollout: r, Ask: in.GetRollout(), At: s.r.records.Now()}
	join := func() (n int) {
		s.r.follower.Read(func() { n = len(w.Join(run, false)) })
		return n
	}
	if first, second := join(), join(); first != 1 || second != 0 {
		t.Errorf("%d facts, and then %d before the pause is over; want 1 and 0", first, second)
	}
	run.At = run.At.Add(time.Hour / 2)
	if n := join(); n != 1 {
		t.Errorf("%d facts after the pause; want 1: none was recorded", n)
	}
}

func TestARolloutReleasesNoServerThatItsEnvironmentMustKeepWorking(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	e := &environmentv1.Environment{Name: "prod", Keep: []*rolloutv1.Keep{{
		Field: "env", Working: &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 5}},
	}}}
	must[*registryv1.CreateEnvironmentResponse](s, "CreateEnvironment",
		&registryv1.CreateEnvironmentRequest{Environment: e})
	for _, id := range s.serverIDs() {
		s.append(fact(ledger.Server, id, &serverv1.Changed{Environment: "prod"}))
	}
	id := s.accepted(topology.VerbRollout, waves(&rolloutv1.Strategy{})).Id
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	released := 0
	for _, f := range s.facts(ledger.Rollout, id) {
		if b, ok := f.Body.(*rolloutv1.Released); ok {
			if released++; len(b.ServerIds) != 1 {
				t.Errorf("%d servers are released at once; five of six must work", len(b.ServerIds))
			}
		}
	}
	if released != 6 {
		t.Errorf("%d releases; want one for each of 6 servers", released)
	}
}
