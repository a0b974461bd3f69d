package forecast

import (
	"testing"

	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

// One run of a large fleet takes longer than a request waits, so it is not only left out before it begins.
func TestARunEndsEarlyAndCountsForNothing(t *testing.T) {
	w := Virtual(100, 1)
	if r, err := Run(w); err != nil || r.State != rolloutv1.State_STATE_SUCCEEDED {
		t.Fatalf("%+v, %v; want a run that succeeds", r, err)
	}
	stop := make(chan struct{})
	close(stop)
	w.stop = stop
	if r, err := Run(w); err != nil || r.State != rolloutv1.State_STATE_RUNNING {
		t.Errorf("%+v, %v; want a run that was cut short", r, err)
	}
	if o, err := Runs(stop, w, 3); err != nil || o.Runs != 0 {
		t.Errorf("%+v, %v; want no run", o, err)
	}
}
