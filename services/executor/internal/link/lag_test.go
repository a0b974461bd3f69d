package link_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
	"github.com/garrison-fleet/garrison/services/executor/internal/link"
)

// A replica of the documents lags behind, and answers the readings of the servers that are connected to it. The bell
// comes from the leader without its document, before that is at the replica. Only reading again finds it: the timer is
// an hour.
func TestABellLeadsToItsDocumentOnAReplicaThatLagsBehind(t *testing.T) {
	t.Parallel()
	const servers, enough, behind = 10, 20, 60 * time.Millisecond
	c := bustest.StartClusterWithLag(t)
	c.RingWithoutDocuments(t)
	writer := c.Dial(t, "dispatcher")
	conn := c.HoldBack(t, topology.Desired, behind)
	var at []topology.ServerAddress
	var rooms []*room
	for n := range servers {
		a := topology.ServerAddress{Cell: "main", Server: fmt.Sprintf("0197b5a0-0000-7000-8000-%012d", n)}
		r := &room{news: make(chan struct{}, 1)}
		l := link.New(link.Config{
			Conn: conn, Address: a, BootID: "boot", Version: "v", Root: layout.Root(t.TempDir()), Backend: r,
			PollInterval: time.Hour, BeatInterval: time.Hour, Log: zerolog.Nop(),
		})
		bustest.Go(t, l.Run)
		at, rooms = append(at, a), append(rooms, r)
	}
	generation := uint64(1)
	store(t, writer, at, generation)
	polltest.Eventually(t, "the first documents are offered", func() bool { return all(rooms, 1) })
	stale, readings := 0, 0 // the replica begins to answer a while after the stream was made
	for deadline := time.Now().Add(time.Minute); stale < enough; readings += servers {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d first readings were stale: the replica does not lag behind", stale, readings)
		}
		for _, r := range rooms {
			r.forget()
		}
		generation++
		store(t, writer, at, generation)
		polltest.Eventually(t, fmt.Sprintf("generation %d is offered to all", generation),
			func() bool { return all(rooms, generation) })
		for _, r := range rooms {
			if r.count() > 1 {
				stale++
			}
		}
	}
	t.Logf("%d of %d first readings were stale", stale, readings)
}

// store stores a document of one generation for each server.
func store(t *testing.T, c *bus.Conn, at []topology.ServerAddress, generation uint64) {
	t.Helper()
	for _, a := range at {
		data, err := proto.Marshal(&desiredv1.Document{ServerId: a.Server, Cell: a.Cell, Generation: generation})
		if err != nil {
			t.Fatal(err)
		}
		d := bus.Durable{Subject: topology.DesiredSubject(a), Data: data}
		if _, err := c.PublishDurable(context.Background(), d); err != nil {
			t.Fatal(err)
		}
	}
}

// all reports whether each got the document of a generation.
func all(rooms []*room, generation uint64) bool {
	for _, r := range rooms {
		if r.last().GetGeneration() != generation {
			return false
		}
	}
	return true
}

func (r *room) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offered = nil
}

// A bell that rings before all servers of the bus know the subscription is lost, and no bell follows it.
func TestTheDocumentIsReadAgainSoonAfterAConnect(t *testing.T) {
	t.Parallel()
	var readings atomic.Int32
	l := link.New(link.Config{
		Conn:    bustest.Start(t).Dial(t, "server"),
		Address: topology.ServerAddress{Cell: "main", Server: "0197b5a0-0000-7000-8000-000000000001"},
		BootID:  "boot", Version: "v", Root: layout.Root(t.TempDir()), Backend: &room{news: make(chan struct{}, 1)},
		PollInterval: time.Hour, BeatInterval: time.Hour, Log: zerolog.Nop(),
		Read: func(error) { readings.Add(1) },
	})
	bustest.Go(t, l.Run)
	// Once at the start, once with the subscription at the latest, and once more.
	polltest.Eventually(t, "it is read three times", func() bool { return readings.Load() >= 3 })
}
