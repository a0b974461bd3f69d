package registry

import (
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/presence"
)

// No beat can arrive while the bus is unreachable, not even when it is back before the registry
// notices; and then each server needs its time to connect again.
func TestNoServerIsCalledOfflineBecauseTheBusWasUnreachable(t *testing.T) {
	t.Parallel()
	every := time.Minute
	s := startBeating(t, every)
	id := s.server("one")
	s.firstBeat(id, "boot")
	s.untilPresence(id, serverv1.Presence_PRESENCE_ONLINE)
	s.sweeps(1) // the sweep after the beat is over, and the next one is not soon
	s.bus.Restart(t, func(string) {
		s.skew.Add(int64(2 * presence.Silence(every)))
	})
	for _, later := range []time.Duration{0, presence.Silence(every) + topology.ServerReturns/2} {
		s.pass(later, s.r)
		s.sweeps(1)
		if have := names(s.facts(ledger.Server, id)); slices.Contains(have, "offline") {
			t.Errorf("no beat could arrive, and %s later the facts are %v", later, have)
		}
	}
	s.pass(topology.ServerReturns, s.r)
	s.untilPresence(id, serverv1.Presence_PRESENCE_OFFLINE)
}
