package bus_test

import (
	"slices"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestTheLeaderOfAStreamNamesTheServerThatIsAway(t *testing.T) {
	t.Parallel()
	nodes := bustest.StartGuardedCluster(t)
	conn := nodes[0].Service(t, topology.UserRegistry)
	look := func() (q bus.Quorum) { // unanswered while leaders are elected
		q, _ = conn.Quorum(t.Context(), topology.Ledger, 3*time.Second)
		return q
	}
	polltest.Eventually(t, "every server is heard", func() bool {
		q := look()
		return q.Leader != "" && q.Others == 2 && len(q.Silent) == 0
	})
	nodes[2].Stop()
	polltest.Eventually(t, "the server that is away is named", func() bool {
		return slices.Equal(look().Silent, []string{nodes[2].Name})
	})
}

func TestABusOfOneServerHasNoOthers(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q, err := b.Dial(t, "one").Quorum(t.Context(), topology.Ledger, time.Second)
	if err != nil || q.Leader == "" || q.Others != 0 || len(q.Silent) != 0 {
		t.Errorf("%+v, %v", q, err)
	}
}
