package trust_test

import (
	"context"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// On a cluster of three, each user on another server than the one that it talks to, an intent
// reaches the registry, its fact every follower, and a document its server.
func TestAccountsReachEachOtherAcrossACluster(t *testing.T) {
	t.Parallel()
	nodes := bustest.StartGuardedCluster(t)
	me := topology.ServerAddress{Cell: "main", Server: ident.New()}
	registry, dispatcher := nodes[0].Service(t, topology.UserRegistry), nodes[1].Service(t, topology.UserDispatcher)
	person, server := nodes[2].Person(t, "alice", topology.Operator), nodes[2].Server(t, me.Server, me.Cell)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	intents, facts, rung := make(chan bus.Message, 1), make(chan bus.Message, 1), make(chan bus.Message, 1)
	go func() {
		_ = registry.Consume(ctx, topology.RegistryIntents, func(_ context.Context, m bus.Message) error {
			intents <- m
			return nil
		})
	}()
	go func() {
		_ = dispatcher.Replay(ctx, topology.Ledger, 1, func(msgs []bus.Message) error {
			facts <- msgs[0]
			return nil
		})
	}()
	if _, err := server.Subscribe(topology.BellSubject(me), func(m bus.Message) {
		select {
		case rung <- m:
		default: // one is enough
		}
	}); err != nil {
		t.Fatal(err)
	}
	store := func(c *bus.Conn, subject string) {
		t.Helper()
		if _, err := c.PublishDurable(ctx, bus.Durable{Subject: subject, Data: []byte("stored")}); err != nil {
			t.Fatalf("store %s: %v", subject, err)
		}
	}
	store(person, topology.IntentSubject(topology.VerbInstall, "alice", ident.New()))
	receive(t, "the intent", intents)
	store(registry, ledger.FactSubject(ledger.Server, me.Server, "online"))
	receive(t, "the fact", facts)
	// Another server of the bus may hear of the subscription after it rang: then the next document rings.
	polltest.Eventually(t, "the bell rings", func() bool {
		store(dispatcher, topology.DesiredSubject(me))
		select {
		case <-rung:
			return true
		case <-time.After(time.Second):
			return false
		}
	})
	// A replica has the document a moment after the leader rang.
	polltest.Eventually(t, "the server reads its document", func() bool {
		m, err := server.DirectGet(ctx, topology.Desired, topology.DesiredSubject(me))
		if err != nil && !fault.Is(err, fault.NotFound) {
			t.Fatal(err)
		}
		return string(m.Data) == "stored"
	})
	store(server, topology.ReportSubject(me, topology.ReportTask))
}
