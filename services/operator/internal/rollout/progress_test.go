package rollout

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestTheProgressOfARolloutSaysWhatItWaitsForFirst(t *testing.T) {
	r := &registryv1.GetRolloutResponse{
		Rollout:  &rolloutv1.Rollout{Waves: []*rolloutv1.Wave{{Servers: 5}}},
		WaitsFor: "wave 1: a keep budget",
	}
	have := progress(r, "1s (50 %) to 2s (90 %)")
	if want := "; waits for a keep budget; 1s (50 %) to 2s (90 %) left"; !strings.HasSuffix(have, want) {
		t.Errorf("have %q, want %q at its end", have, want)
	}
}

func TestWhatIsLeftOfARolloutShrinksWithTimeAndEndsWithIt(t *testing.T) {
	answer := &registryv1.GetRolloutResponse{
		Left_50: durationpb.New(10 * time.Second), Left_90: durationpb.New(12 * time.Second),
	}
	if have, want := leftAfter(answer, 9*time.Second), "1s (50 %) to 3s (90 %)"; have != want {
		t.Errorf("after 9 s %q, want %q", have, want)
	}
	if have, want := leftAfter(answer, time.Minute), "0s (50 %) to 0s (90 %)"; have != want {
		t.Errorf("after a minute %q, want %q", have, want)
	}
	r := &registryv1.GetRolloutResponse{Rollout: &rolloutv1.Rollout{
		State: rolloutv1.State_STATE_SUCCEEDED, Waves: []*rolloutv1.Wave{{Servers: 5}},
	}}
	if have := progress(r, "1s (50 %) to 3s (90 %)"); strings.Contains(have, "left") {
		t.Errorf("a rollout that ended has %q", have)
	}
}
