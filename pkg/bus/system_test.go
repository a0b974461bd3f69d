package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func TestTheSystemUserOfAccessSeesAndEndsConnections(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	c := bus.NewSystem(g.Service(t, topology.UserAccessSystem))
	nodes := g.Authority.Names[topology.AccountNodes]
	opened, closed := make(chan bus.Client, 10), make(chan bus.Client, 10)
	stop, err := c.WatchClients(nodes, func(c bus.Client) { opened <- c }, func(c bus.Client) { closed <- c })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	id := ident.New()
	nc := g.Raw(t, id, "main")
	seen := <-opened
	servers, err := c.Servers(t.Context())
	if err != nil || len(servers) != 1 {
		t.Fatalf("servers: %v, %v, want one", servers, err)
	}
	clients, err := c.Clients(t.Context(), servers[0], nodes)
	if err != nil || len(clients) != 1 || clients[0].ID != seen.ID || clients[0].User != seen.User ||
		clients[0].Server.ID != seen.Server.ID || clients[0].Since.IsZero() || clients[0].Address == "" {
		t.Fatalf("connections: %+v, %v, want %+v", clients, err, seen)
	}
	beats := topology.BeatSubject(topology.ServerAddress{Cell: "main", Server: id})
	for range 3 {
		if err := nc.Publish(beats, []byte("1234")); err != nil {
			t.Fatal(err)
		}
	}
	polltest.Eventually(t, "what the account uses is counted", func() bool {
		uses, err := c.AccountUses(t.Context(), []string{nodes}, 1)
		return err == nil && uses[nodes] == bus.AccountUse{Connections: 1, Messages: 3, Bytes: 12}
	})
	gone := make(chan error, 1)
	nc.SetDisconnectErrHandler(func(_ *nats.Conn, err error) { gone <- err })
	if err := c.Kick(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	<-gone
	if ended := <-closed; ended.ID != seen.ID {
		t.Errorf("ended %+v, want %+v", ended, seen)
	}
	if err := c.Kick(t.Context(), seen); err != nil {
		t.Errorf("kicked again: %v", err)
	}
}

// A connection that opened a moment ago has sent less than those that are open for long, and may send the most now.
func TestSendersIncludeAConnectionThatIsActiveNow(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	c := bus.NewSystem(g.Service(t, topology.UserAccessSystem))
	servers, err := c.Servers(t.Context())
	if err != nil || len(servers) != 1 {
		t.Fatalf("servers: %v, %v, want one", servers, err)
	}
	sends := func(n int) uint64 {
		id := ident.New()
		nc := g.Raw(t, id, "main")
		for range n {
			err := nc.Publish(topology.BeatSubject(topology.ServerAddress{Cell: "main", Server: id}), nil)
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			t.Fatal(err)
		}
		cid, err := nc.GetClientID()
		if err != nil {
			t.Fatal(err)
		}
		return cid
	}
	for range 3 {
		sends(9)
	}
	active := sends(1)
	list, err := c.Senders(t.Context(), servers[0], g.Authority.Names[topology.AccountNodes], 2)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[uint64]bool{}
	for _, s := range list {
		if ids[s.ID] {
			t.Errorf("connection %d is listed twice", s.ID)
		}
		ids[s.ID] = true
	}
	if !ids[active] || len(list) < 3 {
		t.Errorf("listed %+v; want two that sent most and connection %d", list, active)
	}
}

func TestAnAccountIsUpdatedOnTheBus(t *testing.T) {
	t.Parallel()
	g := bustest.StartGuarded(t)
	c := bus.NewSystem(g.Service(t, topology.UserAccessSystem))
	id := ident.New()
	login, seed := g.ServerUser(t, id, "main")
	nc := g.RawAs(t, id, login, seed)
	gone := make(chan error, 1)
	nc.SetDisconnectErrHandler(func(_ *nats.Conn, err error) { gone <- err })
	issuer, err := trust.OpenIssuer(g.Dir())
	if err != nil {
		t.Fatal(err)
	}
	token, err := issuer.Revoke(topology.AccountNodes, []string{trust.Context{Seed: string(seed)}.PublicKey()})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.UpdateAccount(t.Context(), token, 1); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	case <-time.After(time.Minute):
		t.Error("the connection of a revoked key stays")
	}
	have, err := c.AccountJWTs(t.Context(), issuer.AccountKey(topology.AccountNodes), 1)
	if err != nil || !trust.SameAccount(have[0], token) {
		t.Errorf("the bus does not have the account that was pushed (%v)", err)
	}
	if err := c.UpdateAccount(t.Context(), token+"x", 1); err == nil {
		t.Error("a forged account was confirmed")
	}
}
