package access_test

import (
	"slices"
	"testing"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestAViewerReadsTheStateOfABusWithOneServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	viewer := w.bus.Person(t, "vera", topology.Viewer)
	r := must[*accessv1.GetBusResponse](w, viewer, "GetBus", &accessv1.GetBusRequest{})
	if len(r.GetServers()) != 1 || !r.GetServers()[0].GetAnswers() || !r.GetServers()[0].GetLeads() {
		t.Errorf("servers: %v", r.GetServers())
	}
	if len(r.GetStreams()) != len(topology.Streams(1)) {
		t.Errorf("%d streams, want %d", len(r.GetStreams()), len(topology.Streams(1)))
	}
	for _, s := range r.GetStreams() {
		if s.GetReplicas() != 1 || s.GetLeader() == "" || len(s.GetCopies()) != 1 {
			t.Errorf("stream %v", s)
		}
	}
	for _, a := range r.GetAlarms() {
		if a.GetCause() != "sync-later" { // the bus of this test does not sync
			t.Errorf("alarm: %v", a)
		}
	}
}

func TestTheStateOfAClusterNamesTheServerThatIsAway(t *testing.T) {
	t.Parallel()
	nodes := bustest.StartGuardedCluster(t)
	w := onBus(t, nodes[0], 1)
	look := func() *accessv1.GetBusResponse { // unanswered while the servers learn who listens where
		r, err := call[*accessv1.GetBusResponse](w, w.admin, "GetBus", &accessv1.GetBusRequest{})
		if err != nil && !fault.Is(err, fault.Unavailable) {
			t.Fatal(err)
		}
		return r
	}
	polltest.Eventually(t, "each replica is current", func() bool {
		r := look()
		for _, s := range r.GetStreams() {
			for _, c := range s.GetCopies() {
				if !c.GetCurrent() {
					return false
				}
			}
			if len(s.GetCopies()) != 3 || s.GetReplicas() != 3 {
				t.Fatalf("stream %v; want three replicas", s)
			}
		}
		return len(r.GetServers()) == 3 && len(r.GetStreams()) == len(topology.Streams(3))
	})
	polltest.Eventually(t, "a bus where nothing is wrong has no alarm", func() bool {
		return !slices.ContainsFunc(look().GetAlarms(), func(a *accessv1.BusAlarm) bool {
			return a.GetCause() != "sync-later" // the bus of this test does not sync
		})
	})
	nodes[2].Stop()
	polltest.Eventually(t, "the server that is away is named", func() bool {
		for _, a := range look().GetAlarms() {
			if a.GetCause() == "server-away" && a.GetOf() == nodes[2].Name {
				return true
			}
		}
		return false
	})
}
