package registry

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

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
	if c := s.code("ReplayRollout", &registryv1.ReplayRolloutRequest{RolloutId: "none"}); c != code.UnknownRollout {
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
