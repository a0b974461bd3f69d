package bustest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// Cluster is three embedded servers that keep every stream with three replicas.
type Cluster struct{ servers []*server.Server }

// StartCluster starts a cluster that ends with the test. Its servers listen on free loopback
// ports: routes begin only behind a listener for clients.
func StartCluster(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{}
	var routes []*url.URL
	var ports [3]int
	var listeners []net.Listener
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = l.Addr().(*net.TCPAddr).Port
		routes = append(routes, &url.URL{Scheme: "nats", Host: l.Addr().String()})
		listeners = append(listeners, l)
	}
	for _, l := range listeners { // together, so that no port comes twice
		_ = l.Close()
	}
	for i, port := range ports {
		s, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("bustest-%d", i), Host: "127.0.0.1", Port: server.RANDOM_PORT,
			JetStream: true, StoreDir: t.TempDir(),
			Cluster: server.ClusterOpts{Name: "bustest", Host: "127.0.0.1", Port: port},
			Routes:  routes, NoSigs: true, NoLog: true, SyncInterval: time.Minute,
		})
		if err != nil {
			t.Fatalf("make a server: %v", err)
		}
		s.Start()
		t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
		c.servers = append(c.servers, s)
	}
	Eventually(t, "the cluster has a leader", func() bool {
		for _, s := range c.servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(c.servers) {
				return true
			}
		}
		return false
	})
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	if err := c.Dial(t, "provision").Provision(ctx, topology.Bus{Replicas: 3}); err != nil {
		t.Fatalf("provision the cluster: %v", err)
	}
	return c
}

// Dial connects to one of the servers; the connection ends with the test.
func (c *Cluster) Dial(t testing.TB, name string) *bus.Conn {
	t.Helper()
	conn, err := bus.Dial(bus.Options{Name: name, InProcess: c.servers[0], Log: zerolog.Nop()})
	if err != nil {
		t.Fatalf("connect to the cluster: %v", err)
	}
	t.Cleanup(conn.Close)
	return conn
}
