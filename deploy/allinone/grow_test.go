package allinone_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/freeport"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// The ledger of a garrisond goes to three servers with the accounts and permissions that keys writes for them.
func TestAGarrisondGrowsIntoThreeServers(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	g, err := start(t, data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	run(t, g)
	net := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(250), rand.IntN(250)) // fixed ports at addresses of this test alone
	var hosts, urls []string
	for n := range 3 {
		hosts = append(hosts, fmt.Sprintf("%s%d", net, n+1))
		urls = append(urls, "tls://"+hosts[n]+":4222")
	}
	k := allinone.Keys{Data: data, URL: strings.Join(urls, ","), HandOut: filepath.Join(t.TempDir(), "hand-out")}
	if err := allinone.WriteKeys(k); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		startFromFile(t, hosts[n], fmt.Sprintf("bus-%d", n+1), filepath.Join(k.HandOut, "bus"))
	}
	var log buffer
	grow := allinone.Growing{Data: data, URL: g.URL(), To: k.URL, Replicas: 3, DryRun: true, Log: &log}
	for range 2 { // a second one finds nothing of the first in the cluster
		if err := allinone.Grow(t.Context(), grow); err != nil {
			t.Fatalf("dry run: %v; it printed: %s", err, log.String())
		}
	}
	for _, want := range []string{"stream LEDGER:", "nothing was changed"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("a dry run printed %s, want %q in it", log.String(), want)
		}
	}
	grow.DryRun = false
	err = allinone.Grow(t.Context(), grow)
	if err != nil {
		t.Fatalf("grow: %v; it printed: %s", err, log.String())
	}
	if !strings.Contains(log.String(), "no longer takes writes") {
		t.Errorf("it printed: %s", log.String())
	}
	if strings.Contains(log.String(), "from a move that did not end") {
		t.Errorf("the dry run left streams in the cluster; it printed: %s", log.String())
	}
	before, after := ledgerOf(t, data, g.URL()), ledgerOf(t, data, k.URL)
	if after.LastSequence != before.LastSequence || !after.Created.Equal(before.Created) || after.LastSequence == 0 {
		t.Errorf("the ledger of the cluster is %+v, want %+v", after, before)
	}
}

// A move that waits for a bus that refuses connections names it.
func TestAMoveNamesTheBusThatCannotBeReached(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take()
	if err != nil {
		t.Fatal(err)
	}
	url := "tls://" + freeport.Address(port)
	data := t.TempDir()
	if err := allinone.WriteKeys(allinone.Keys{Data: data, URL: url}); err != nil {
		t.Fatal(err)
	}
	var log buffer
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- allinone.Grow(ctx, allinone.Growing{Data: data, URL: url, To: url, Replicas: 3, Log: &log})
	}()
	polltest.Eventually(t, "it prints which bus refuses connections", func() bool {
		return strings.Contains(log.String(), "waiting for the bus at "+url) &&
			strings.Contains(log.String(), "connection refused")
	})
	cancel()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v, want that the connection was refused", err)
	}
}

// ledgerOf reads about the ledger of a bus.
func ledgerOf(t *testing.T, data, url string) bus.Stream {
	t.Helper()
	conn, err := bus.Dial(bus.Options{
		URL: url, Name: topology.UserProvision, Log: zerolog.Nop(), Persist: true,
		TLS: bus.TLS{CA: trust.ReadBundle(filepath.Join(data, "trust", "tls", "ca.pem"))},
		Credentials: trust.ReadCredentials(
			filepath.Join(data, "trust", "services", topology.UserProvision+".creds")),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := conn.Stream(ctx, topology.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
