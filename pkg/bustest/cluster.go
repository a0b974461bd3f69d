package bustest

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/freeport"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Cluster is three embedded servers that keep every stream with three replicas.
type Cluster struct {
	servers []*server.Server
	lag     *lag // nil in a cluster whose servers are connected directly
}

// StartCluster starts a cluster that ends with the test.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{servers: startServers(t, func() server.Options { return server.Options{} })}
	c.provision(t, c.Dial(t, "provision"))
	return c
}

// StartEmptyCluster starts a cluster without streams.
func StartEmptyCluster(t testing.TB) *Cluster {
	t.Helper()
	return &Cluster{servers: startServers(t, func() server.Options { return server.Options{} })}
}

// StartClusterWithLag is StartCluster with a server that can be held back.
func StartClusterWithLag(t testing.TB) *Cluster {
	t.Helper()
	if os.Getenv("GARRISON_CLUSTER") == "" {
		t.Skip("SKIPPED: run it with make cluster-test; on a busy machine every replica may lag")
	}
	l := &lag{}
	c := &Cluster{lag: l, servers: startLagging(t, l, func() server.Options { return server.Options{} })}
	c.provision(t, c.Dial(t, "provision"))
	return c
}

// answersAfter is when a replica that is not busy answers direct gets. One that lags behind from its beginning never
// does: the bus looks every two seconds whether it has caught up.
const answersAfter = 5 * time.Second

// HoldBack has the replicas of one server lag behind by d from now on, and returns a connection to that server, whose
// direct gets it answers. It is one that does not lead the stream.
func (c *Cluster) HoldBack(t testing.TB, stream string, d time.Duration) *bus.Conn {
	t.Helper()
	time.Sleep(answersAfter)
	for _, s := range c.servers {
		if !s.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
			c.lag.held.Store(&heldBack{s.Name(), d})
			return dial(t, s, "behind")
		}
	}
	t.Fatal("every server leads the stream")
	return nil
}

// RingWithoutDocuments has bells carry no document from now on, as those of a bus before topology number 10.
func (c *Cluster) RingWithoutDocuments(t testing.TB) {
	t.Helper()
	nc, err := nats.Connect("", nats.Timeout(time.Minute), nats.InProcessServer(c.servers[0]))
	if err != nil {
		t.Fatalf("connect to the cluster: %v", err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	config, _ := topology.StreamNamed(3, topology.Desired)
	config.RePublish.HeadersOnly = true
	if _, err := js.UpdateStream(ctx, config); err != nil {
		t.Fatalf("change the bells: %v", err)
	}
}

func (c *Cluster) provision(t testing.TB, conn *bus.Conn) {
	t.Helper()
	s := bus.NewStreams(conn)
	// A server that has not met the account yet answers that it has no JetStream, and one without a leader not at all.
	try := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return s.Provision(ctx, topology.Bus{Replicas: 3})
	}
	err := try()
	for began := time.Now(); err != nil && time.Since(began) < 2*time.Minute; err = try() {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("provision the cluster: %v", err)
	}
}

// StartGuardedCluster is StartGuarded for a cluster of three. It returns one Guarded for each server.
func StartGuardedCluster(t testing.TB) []*Guarded {
	t.Helper()
	a, accounts := authority(t)
	c := &Cluster{servers: startServers(t, func() server.Options {
		o := accounts
		o.AccountResolver = resolver(t, a)
		return o
	})}
	var out []*Guarded
	for _, s := range c.servers {
		out = append(out, &Guarded{Authority: a, URL: s.ClientURL(), Name: s.Name(), server: s, t: t})
	}
	c.provision(t, out[0].Service(t, topology.UserProvision))
	return out
}

// startServers starts a cluster of three servers, each with options of its own. They listen on free loopback
// ports: routes begin only behind a listener for clients.
func startServers(t testing.TB, with func() server.Options) []*server.Server {
	t.Helper()
	return startLagging(t, nil, with)
}

// freePort returns a port at which a server can listen, also after a restart.
func freePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// startLagging is startServers with connections between the servers that pass through l, unless it is nil.
func startLagging(t testing.TB, l *lag, with func() server.Options) (servers []*server.Server) {
	t.Helper()
	var routes []*url.URL
	var ports [3]int
	var addresses [3]string
	for i := range ports {
		ports[i] = freePort(t)
		addresses[i] = freeport.Address(ports[i])
		if l != nil {
			addresses[i] = l.relay(t, serverName(i), addresses[i])
		}
		routes = append(routes, &url.URL{Scheme: "nats", Host: addresses[i]})
	}
	for i, port := range ports {
		o := with()
		o.ServerName, o.Host, o.Port = serverName(i), "127.0.0.1", freePort(t)
		o.JetStream, o.StoreDir, o.SyncInterval = true, t.TempDir(), time.Minute
		o.Cluster = server.ClusterOpts{Name: "bustest", Host: "127.0.0.1", Port: port, Advertise: addresses[i]}
		o.Routes = routes
		s := startServer(t, o)
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		servers = append(servers, s)
	}
	polltest.Eventually(t, "the cluster has a leader", func() bool {
		for _, s := range servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(servers) {
				return true
			}
		}
		return false
	})
	return servers
}

func serverName(i int) string { return fmt.Sprintf("bustest-%d", i) }

// Dial connects to one of the servers; the connection ends with the test.
func (c *Cluster) Dial(t testing.TB, name string) *bus.Conn {
	t.Helper()
	return dial(t, c.servers[0], name)
}

func dial(t testing.TB, s *server.Server, name string) *bus.Conn {
	t.Helper()
	conn, err := bus.Dial(bus.Options{Name: name, InProcess: s, Log: zerolog.Nop()})
	if err != nil {
		t.Fatalf("connect to the cluster: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}
