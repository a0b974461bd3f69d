package drift

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
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
