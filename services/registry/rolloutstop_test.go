package registry

import (
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
)

func inOneWave(strategy *rolloutv1.Strategy) *intentv1.Intent {
	in := waves(strategy)
	in.GetRollout().Strategy.Stages = nil
	return in
}

// wantsOnAll waits until a version of web is wanted on so many servers, and returns their instances.
func (s *site) wantsOnAll(servers int, version string) (out []*instancev1.Instance) {
	s.t.Helper()
	polltest.Eventually(s.t, version+" is wanted", func() bool {
		out = nil
		s.r.follower.Read(func() {
			for i := range s.r.records.View.InstancesOfAgent("web") {
				if i.Wanted.GetVersion() == version {
					out = append(out, proto.CloneOf(i))
				}
			}
		})
		return len(out) == servers
	})
	return out
}

// cancel ends the queued tasks of instances as the dispatcher does when their intents are withdrawn.
func (s *site) cancel(due []*instancev1.Instance) {
	s.t.Helper()
	for _, i := range due {
		id := ident.New()
		s.append(
			fact(ledger.Task, id, &taskv1.Queued{
				Verb: taskv1.Verb_VERB_UPGRADE, ServerId: i.ServerId, Agent: i.Agent, InstanceId: i.Id,
				Generation: i.Generation, Attempt: 1, From: i.Observed, To: i.Wanted, IntentId: i.IntentId,
			}),
			fact(ledger.Task, id, &taskv1.Cancelled{Reason: "its intent was withdrawn by registry", Withdrawn: true}))
	}
}

func (s *site) targetsAre(id string, want map[rolloutv1.TargetState]int) {
	s.t.Helper()
	polltest.Eventually(s.t, "the targets move", func() (are bool) {
		s.r.follower.Read(func() {
			are = true
			for state, n := range want {
				have := 0
				for range s.r.records.View.TargetsOf(id, state) {
					have++
				}
				are = are && have == n
			}
		})
		return are
	})
}

// The view keeps the newest 10,000 intents, and what an older one queued must not begin either.
func TestAPauseWithdrawsAnIntentThatTheViewDoesNotKeep(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 2)
	most := &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 2}} // both at once
	id := s.accepted(topology.VerbRollout, inOneWave(&rolloutv1.Strategy{MaxBroken: most})).Id
	due := s.wantsOnAll(2, "1.1.0")
	var newer []ledger.Draft
	for range 10_001 {
		newer = append(newer, fact(ledger.Intent, ident.New(), &intentv1.Refused{}))
	}
	for part := range slices.Chunk(newer, topology.MaxBatch) {
		s.append(part...)
	}
	s.r.follower.Read(func() {
		if _, kept := s.r.records.View.Intent(due[0].IntentId); kept {
			t.Fatal("the view keeps the intent")
		}
	})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_PAUSE)
	withdrawn := func() (n int) {
		for _, f := range s.facts(ledger.Intent, due[0].IntentId) {
			if _, is := f.Body.(*intentv1.Withdrawn); is {
				n++
			}
		}
		return n
	}
	polltest.Eventually(t, "its intent is withdrawn", func() bool { return withdrawn() > 0 })
	s.cancel(due)
	s.targetsAre(id, map[rolloutv1.TargetState]int{rolloutv1.TargetState_TARGET_STATE_PENDING: 2})
	s.control(id, registryv1.RolloutControl_ROLLOUT_CONTROL_RESUME)
	s.eventually("the rollout succeeds", nil, s.is(id, rolloutv1.State_STATE_SUCCEEDED))
	if n := withdrawn(); n != 1 {
		t.Errorf("withdrawn %d times; want once", n)
	}
}

// decided returns what a registry decides about a rollout of web now.
func (s *site) decided(id string) (d rolling.Decision) {
	s.r.follower.Read(func() {
		d = rolling.Decide(s.r.records.View, intent.Ask{
			ID: id, Actor: "ann", Verb: topology.VerbRollout, At: s.r.records.Now(),
			Intent: waves(&rolloutv1.Strategy{}),
		})
	})
	return d
}

func TestOfTwoOverlappingPlansOnOneViewOneBegins(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 4)
	i := s.r.intents
	one, other := ident.New(), ident.New()
	first, second := s.decided(one), s.decided(other)
	if first.Refusal != nil || second.Refusal != nil {
		t.Fatalf("refused: %v, %v", first.Refusal, second.Refusal)
	}
	if err := i.RecordRollout(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := i.RecordRollout(t.Context(), second); !fault.Is(err, fault.Conflict) {
		t.Errorf("the second plan: %v; want a conflict", err)
	}
	polltest.Eventually(t, "the first plan is folded", func() bool { return s.decided(other).Refusal != nil })
	if d := s.decided(other); d.Refusal.GetCode() != code.RolloutOverlaps {
		t.Errorf("planned again: %v; want %s", d.Refusal, code.RolloutOverlaps)
	}
}

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

func TestAReplayComesToEveryRecordedDecision(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	one := &rolloutv1.Limit{By: &rolloutv1.Limit_Servers{Servers: 1}}
	strategy := &rolloutv1.Strategy{Concurrency: 1, MaxBroken: one, Emergency: true} // goes on without a success
	bad := s.accepted(topology.VerbRollout, waves(strategy)).Id
	everywhere := func(string) bool { return true }
	s.eventually("it halts", everywhere, s.is(bad, rolloutv1.State_STATE_HALTED))

	q := &registryv1.ReplayRolloutRequest{RolloutId: bad[:8]}
	resp := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", q)
	if resp.Recorded < 4 || resp.Same != resp.Recorded || len(resp.Decisions) != int(resp.Recorded) {
		t.Errorf("replayed %v", resp)
	}
	first, last := resp.Decisions[0], resp.Decisions[len(resp.Decisions)-1]
	if first.Recorded != "wave 1 opened" || first.Decided != first.Recorded || last.Decided != last.Recorded {
		t.Errorf("from %v to %v", first, last)
	}
	q.Poll = true
	if polled := must[*registryv1.ReplayRolloutResponse](s, "ReplayRollout", q); !proto.Equal(polled, resp) {
		t.Errorf("replayed for a client that polls: %v; want %v", polled, resp)
	}
	if c := s.code("ReplayRollout", &registryv1.ReplayRolloutRequest{RolloutId: "none"}); c != code.NotFound {
		t.Errorf("an unknown rollout: %s", c)
	}
}

func TestAForecastSaysWhatARolloutWouldDo(t *testing.T) {
	t.Parallel()
	s := rolledOut(t, 6)
	before := s.versions()
	q := &registryv1.ForecastRolloutRequest{Runs: 5, Intent: waves(&rolloutv1.Strategy{
		Soak: durationpb.New(time.Hour),
	})}
	good := must[*registryv1.ForecastRolloutResponse](s, "ForecastRollout", q)
	if good.Runs != 5 || good.Succeeded != 5 || good.Touched_90 != 6 || good.Tasks == 0 {
		t.Errorf("a good version: %v", good)
	}
	if again := must[*registryv1.ForecastRolloutResponse](s, "ForecastRollout", q); !proto.Equal(good, again) {
		t.Errorf("again: %v, before %v", again, good)
	}
	q.BrokenPermille = 1000
	bad := must[*registryv1.ForecastRolloutResponse](s, "ForecastRollout", q)
	if bad.Halted != 5 || bad.HaltedIn[1] != 5 || bad.HaltedBecause[code.TooManyBroken] != 5 || bad.Touched_90 != 1 {
		t.Errorf("a bad version: %v", bad)
	}
	if have := s.versions(); have["1.0.0"] != before["1.0.0"] {
		t.Errorf("versions %v, before %v", have, before)
	}
	for name, wrong := range map[string]*registryv1.ForecastRolloutRequest{
		"no intent": {}, "too many runs": {Intent: q.Intent, Runs: 1001},
		"1,001 ‰": {Intent: q.Intent, BrokenPermille: 1001},
	} {
		if c := s.code("ForecastRollout", wrong); c != code.Malformed {
			t.Errorf("%s: %s", name, c)
		}
	}
}
