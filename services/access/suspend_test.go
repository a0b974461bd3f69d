package access

import (
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

// A suspension ends by itself, and the next one of the same key lasts twice as long.
func TestASuspensionEndsAndTheNextOneIsLonger(t *testing.T) {
	t.Parallel()
	now := time.Now()
	s := newFloods(Config{Now: func() time.Time { return now }}, nil, nil)
	refused := func() []string {
		want := map[string]view.Revoked{topology.AccountNodes: {Keys: []string{"b"}}}
		s.add(want, time.Time{})
		return want[topology.AccountNodes].Keys
	}
	for _, want := range []time.Duration{suspendFirst, 2 * suspendFirst, 4 * suspendFirst} {
		if got := s.suspend(topology.AccountNodes, "a"); got != want {
			t.Errorf("suspended for %v, want %v", got, want)
		}
		if again := s.suspend(topology.AccountNodes, "a"); again != 0 {
			t.Errorf("suspended again for %v meanwhile", again)
		}
		if got := refused(); !slices.Equal(got, []string{"a", "b"}) {
			t.Errorf("refused %v, want a and b", got)
		}
		now = now.Add(want)
		if got := refused(); !slices.Equal(got, []string{"b"}) {
			t.Errorf("refused %v after the suspension, want b", got)
		}
	}
	now = now.Add(suspendMost + time.Second)
	refused()
	if got := s.suspend(topology.AccountNodes, "a"); got != suspendFirst {
		t.Errorf("after it behaved for long: %v, want %v", got, suspendFirst)
	}
}
