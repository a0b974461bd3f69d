package registry

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

// A clock that differs is shown and is a difference while the beats say so, without a fact.
func TestAServerWhoseClockDiffersIsShownWithIt(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	beat := func(ahead time.Duration) *reportv1.Beat {
		return &reportv1.Beat{ServerId: id, BootId: "boot", SentAt: timestamppb.New(time.Now().Add(ahead))}
	}
	differs := func() *registryv1.Difference {
		for _, d := range s.check(&registryv1.CheckFleetRequest{}).Differences {
			if d.Cause == code.ClockSkew {
				return d
			}
		}
		return nil
	}
	bustest.Eventually(t, "it is online by a clock that agrees", func() bool {
		s.sendBeat(beat(0))
		return s.counted(id, "online") == 1
	})
	if d := differs(); d != nil || s.get(id).ClockAhead != nil {
		t.Errorf("a clock that agrees: %v, %v", d, s.get(id).ClockAhead)
	}
	facts := len(s.facts(ledger.Server, id))
	bustest.Eventually(t, "it is two hours behind", func() bool {
		s.sendBeat(beat(-2 * time.Hour))
		ahead := s.get(id).ClockAhead.AsDuration()
		return ahead > -2*time.Hour-time.Minute && ahead < -2*time.Hour+time.Minute
	})
	if d := differs(); d == nil || d.Observed != "2h behind" || d.Since == nil {
		t.Errorf("the difference: %v", d)
	}
	bustest.Eventually(t, "it is set right", func() bool {
		s.sendBeat(beat(0))
		return s.get(id).ClockAhead == nil
	})
	if d := differs(); d != nil {
		t.Errorf("a clock that was set right: %v", d)
	}
	if now := len(s.facts(ledger.Server, id)); now != facts {
		t.Errorf("%d facts about the clock", now-facts)
	}
}
