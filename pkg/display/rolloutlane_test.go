package display_test

import (
	"testing"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
)

func TestARolloutOfTheEmergencyLaneIsMarked(t *testing.T) {
	r := &rolloutv1.Rollout{Title: "up web", Strategy: &rolloutv1.Strategy{}}
	if got := display.RolloutTitle(r); got != "up web" {
		t.Errorf("without the lane: %q", got)
	}
	r.Strategy.Emergency = true
	if got := display.RolloutTitle(r); got != "emergency: up web" {
		t.Errorf("in the lane: %q", got)
	}
	if got := display.InLane("", r.Strategy); got != "emergency" {
		t.Errorf("of an old fact without a title: %q", got)
	}
}
