package access_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
)

// Access is connected to one server of the cluster; what it does holds on all.
func TestAClusterOfThreeShutsOutOnEveryServer(t *testing.T) {
	t.Parallel()
	nodes := bustest.StartGuardedCluster(t)
	w := onBus(t, nodes[0], 1)
	on := func(n int) *world { return &world{T: t, bus: nodes[n], registry: w.registry, admin: w.admin} }
	l := w.server()
	var open []connection
	for n := range nodes {
		open = append(open, on(n).connect(l))
	}
	w.record(l.name, &serverv1.Quarantined{Reason: "mad"})
	for n := range nodes {
		<-open[n].gone // a refused client tries the other servers, which must all have refused it first
	}
	for n := range nodes {
		on(n).shutOut(open[n], l)
	}
	w.record(l.name, &serverv1.Released{})
	for n := range nodes {
		polltest.Eventually(t, "it is let in everywhere", func() bool { return on(n).letIn(l) })
	}
}

func TestConnectionsAreCountedOverTheWholeCluster(t *testing.T) {
	t.Parallel()
	nodes := bustest.StartGuardedCluster(t)
	w := onBus(t, nodes[0], 1)
	l := w.server()
	var all []*nats.Conn
	for range 4 {
		for _, g := range nodes {
			if nc, err := g.TryRaw(l.name, l.jwt, l.seed); err == nil {
				all = append(all, nc)
				defer nc.Close()
			}
		}
	}
	polltest.Eventually(t, "three of twelve connections are left", func() bool {
		open := 0
		for _, nc := range all {
			if nc.IsConnected() {
				open++
			}
		}
		return open == 3
	})
}
