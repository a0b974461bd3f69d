package drift

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/topology"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestDamageThatRestsSaysWhenItIsRepairedAgain(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	image := &imagev1.Ref{Id: "one", Version: "1.0.0"}
	i := &instancev1.Instance{
		Agent: "web", Wanted: image, Observed: image, Health: instancev1.Health_HEALTH_BAD,
		State: instancev1.State_STATE_FAILED, ObservedCode: code.Damaged, ObservedReason: "a file differs",
		ObservedNextAt: timestamppb.New(at),
	}
	s := Situation{Server: &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE}, Now: at.Add(-time.Minute)}
	if d := s.ofInstance(i); !d.GetNextAt().AsTime().Equal(at) || !strings.HasSuffix(d.Reason, "2026-01-31T12:00:00Z") {
		t.Errorf("while it rests: %v", d)
	}
	s.Now = at
	if d := s.ofInstance(i); d.GetNextAt() != nil || d.Reason != "a file differs" {
		t.Errorf("after the rest: %v", d)
	}
}

func TestTheNextStepOfTheExecutorIsSaid(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, code  string
		next        time.Time // as the executor says
		heals       bool
		want        time.Time
		wantsReason string
	}{
		{"a first repair", code.Damaged, time.Time{}, true, at.Add(topology.HealAfter),
			"; it is repaired by 2026-01-31T12:00:10Z"},
		{"damage that is not healed", code.Damaged, time.Time{}, false, time.Time{}, ""},
		{"a health check that fails", code.ProbeFails, time.Time{}, true, time.Time{}, ""},
		{"a crash loop", code.CrashLoop, at.Add(time.Minute), true, at.Add(time.Minute),
			"; it is started again at 2026-01-31T12:01:00Z"},
		{"a crash loop under another policy", code.CrashLoop, at.Add(time.Minute), false, at.Add(time.Minute),
			"; it is started again at 2026-01-31T12:01:00Z"},
	} {
		image := &imagev1.Ref{Id: "one", Version: "1.0.0"}
		i := &instancev1.Instance{
			Agent: "web", Wanted: image, Observed: image, Health: instancev1.Health_HEALTH_BAD,
			State: instancev1.State_STATE_FAILED, ObservedCode: c.code, ObservedReason: "why",
			ObservedAt: timestamppb.New(at),
		}
		if !c.next.IsZero() {
			i.ObservedNextAt = timestamppb.New(c.next)
		}
		s := Situation{
			Server: &serverv1.Server{Life: serverv1.Life_LIFE_ALIVE}, Now: at.Add(time.Second), Heals: c.heals,
		}
		d := s.ofInstance(i)
		if d.Reason != "why"+c.wantsReason || (d.NextAt != nil) == c.want.IsZero() ||
			d.NextAt != nil && !d.NextAt.AsTime().Equal(c.want) {
			t.Errorf("%s: %v", c.name, d)
		}
	}
}
