package allinone_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// startFromFile starts a server of the bus with deploy/nats/cluster.conf, at an address of its own.
func startFromFile(t *testing.T, host, name, trustDir string) *server.Server {
	t.Helper()
	text, err := os.ReadFile("../nats/cluster.conf")
	if err != nil {
		t.Fatal(err)
	}
	store := t.TempDir()
	relative, err := filepath.Rel(store, trustDir) // included paths are relative to the file
	if err != nil {
		t.Fatal(err)
	}
	conf := strings.NewReplacer(
		"../../data/", relative+"/", "/data/", trustDir+"/", "/jetstream/", store+"/", "0.0.0.0:", host+":",
	).Replace(string(text))
	conf = fmt.Sprintf("BUS_NAME: %q\n", name) + conf // the file's own variables go before the environment's
	file := filepath.Join(store, "cluster.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// buffer is what several goroutines write to and read.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Three servers with the files that keys hands out find each other over TLS. What provisions them begins before they
// are a cluster, and one of them may go away afterwards.
func TestThreeServersWithTheFilesOfKeysAreABus(t *testing.T) {
	t.Parallel()
	net := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250)) // fixed ports at addresses of this test alone
	var hosts, urls []string
	for n := range 3 {
		hosts = append(hosts, fmt.Sprintf("%s%d", net, n+1))
		urls = append(urls, "tls://"+hosts[n]+":4222")
	}
	k := allinone.Keys{
		Data: t.TempDir(), URL: strings.Join(urls, ","), HandOut: filepath.Join(t.TempDir(), "hand-out"),
	}
	if err := allinone.WriteKeys(k); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(k.HandOut, "bus")
	first := startFromFile(t, hosts[0], "bus-1", dir)
	var log buffer
	provisioned := make(chan error, 1)
	go func() {
		provisioned <- allinone.Provision(context.Background(), allinone.Provisioning{
			Data: filepath.Join(k.HandOut, "provision"), URL: k.URL, Replicas: 3, Log: &log,
		})
	}()
	polltest.Eventually(t, "provision says what it waits for", func() bool {
		return strings.Contains(log.String(), "waiting for the servers of the bus")
	})
	for n := 1; n < 3; n++ {
		startFromFile(t, hosts[n], fmt.Sprintf("bus-%d", n+1), dir)
	}
	if err := <-provisioned; err != nil {
		t.Fatalf("provision: %v; it printed: %s", err, log.String())
	}
	first.Shutdown()
	conn, err := bus.Dial(bus.Options{
		URL: k.URL, Name: topology.UserProvision, Log: zerolog.Nop(), Persist: true,
		TLS: bus.TLS{CA: trust.ReadBundle(filepath.Join(k.Data, "trust", "tls", "ca.pem"))},
		Credentials: trust.ReadCredentials(
			filepath.Join(k.Data, "trust", "services", topology.UserProvision+".creds")),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := conn.WaitStream(ctx, topology.Ledger); err != nil {
		t.Errorf("with two of three servers: %v", err)
	}
}
