package rollout

import (
	"strings"
	"testing"

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
