package registry

import (
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/server"
)

// While the bus was away nobody could beat, also when it was back before anybody looked
// whether it is there; and the longer it was away, the later a server tries again.
func TestNobodyIsCalledOfflineForASilenceOfTheBus(t *testing.T) {
	every := time.Minute
	s := startBeating(t, every)
	id := s.server("one")
	bustest.Eventually(t, "it is heard", func() bool {
		s.beat(id, "boot")
		return s.r.hears(id)
	})
	s.untilPresence(id, serverv1.Presence_PRESENCE_ONLINE)
	time.Sleep(sweepEvery / 10) // the look that the beat rang for is over, and the next is not soon
	s.bus.Restart(t, func(string) {
		s.skew.Add(int64(2 * server.Silence(every)))
	})
	for _, later := range []time.Duration{0, server.Silence(every) + topology.ServerBackoff/2} {
		s.skew.Add(int64(later))
		time.Sleep(2 * sweepEvery)
		if have := names(s.facts(ledger.Server, id)); slices.Contains(have, "offline") {
			t.Errorf("no beat could be heard, and %s later the facts are %v", later, have)
		}
	}
	s.skew.Add(int64(topology.ServerBackoff))
	s.untilPresence(id, serverv1.Presence_PRESENCE_OFFLINE)
}
