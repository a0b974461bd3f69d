package rollouts

import (
	"iter"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/types/known/timestamppb"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rollout"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/records"
)

func TestALookThatPassedManyServersThatDoNotFetchAheadRests(t *testing.T) {
	w := NewWork(&records.Records{Now: time.Now}, nil, nil, zerolog.Nop())
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	pending := map[uint32]uint32{uint32(rolloutv1.TargetState_TARGET_STATE_PENDING): 1}
	servers, looks, fetches := []string{}, 0, ""
	for n := range mostPassed + 1 {
		servers = append(servers, strconv.Itoa(n))
	}
	decide := func(id string, at time.Time) rollout.Decision {
		in, rest := w.rests(id, rollout.Input{
			Now: at, Rollout: &rolloutv1.Rollout{
				State: rolloutv1.State_STATE_RUNNING, Strategy: &rolloutv1.Strategy{}, Owed: &rolloutv1.Wave{},
				Waves: []*rolloutv1.Wave{{Servers: 1, Counts: pending, OpenedAt: timestamppb.New(at)}},
			},
			Pending:  func(uint32) iter.Seq[string] { return slices.Values(servers[:1]) },
			Unprimed: func() iter.Seq[string] { looks++; return slices.Values(servers) },
			Closed:   func(string) (time.Time, string) { return time.Time{}, "closed" },
			Ahead:    func(server string) (bool, time.Time) { return server == fetches, time.Time{} },
		})
		d := rollout.Decide(in)
		rest(d)
		return d
	}
	decide("a", at)
	decide("a", at.Add(restAhead-1))
	if decide("b", at); looks != 2 {
		t.Errorf("%d looks, want one for each rollout", looks)
	}
	fetches = servers[mostPassed]
	if d := decide("a", at.Add(restAhead)); len(d.Prime) != 1 || looks != 3 {
		t.Errorf("after the rest %d looks find %v", looks, d.Prime)
	}
	w.forgetLooks([]string{"a"})
	if d := decide("b", at); len(d.Prime) != 1 {
		t.Error("the rest of a rollout that is over is remembered")
	}
	servers, looks = servers[:mostPassed], 0
	decide("c", at)
	if decide("c", at); looks != 2 {
		t.Errorf("after few servers %d looks, want 2", looks)
	}
}
