package client_test

import (
	"sync/atomic"
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// lagging is a ledger of three facts. From the first question for the second one on, as many answers come from a
// replica that has the first one only.
func lagging(t *testing.T, conn *bus.Conn, answers int32) {
	t.Helper()
	s, err := conn.NewService(ledger.Registry, "v1.0.0", client.Services[ledger.Registry])
	if err != nil {
		t.Fatal(err)
	}
	var late atomic.Int32
	answer(t, s, "ReadFacts", func(q *registryv1.ReadFactsRequest) (*registryv1.ReadFactsResponse, error) {
		end := uint64(3)
		if q.GetFrom() < 2 {
			end = 2
		} else if late.Add(1) <= answers {
			end = 1
		}
		out := &registryv1.ReadFactsResponse{End: end}
		for n := max(q.GetFrom(), 1); n <= end; n++ {
			out.Facts = append(out.Facts, &registryv1.StoredFact{Sequence: n})
		}
		return out, nil
	})
}

func TestAReplicaThatLagsBehindIsNoResetOnABusOfSeveralServers(t *testing.T) {
	t.Parallel()
	const answers = 8 // two seconds of them
	cluster := bustest.StartCluster(t)
	lagging(t, cluster.Dial(t, "registry"), answers)
	f := follow(t, client.New(cluster.Dial(t, "ann"), 0), client.Query{})
	f.reads(t, 1, 3)

	alone := bustest.Start(t)
	lagging(t, alone.Dial(t, "registry"), answers)
	f = follow(t, connect(t, alone), client.Query{})
	f.reads(t, 1, 2)
	if r := f.resets(t); r.Last.Sequence != 2 {
		t.Errorf("%+v, want a reset behind fact 2", r)
	}
}
