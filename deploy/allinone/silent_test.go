package allinone

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/garrison-fleet/garrison/pkg/polltest"
)

func TestOnlySilentConnectionsOfOneAddressAreClosed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	var all []*server.ConnInfo
	add := func(n int, address string, age time.Duration) {
		for range n {
			all = append(all, &server.ConnInfo{Cid: uint64(len(all)), IP: address, Start: now.Add(-age)})
		}
	}
	add(silentOfOne, "10.0.0.1", time.Minute)
	add(10*silentOfOne, "10.0.0.2", silentFor/2) // a fleet that logs in
	add(silentOfOne+7, "10.0.0.3", time.Minute)
	for address, ids := range tooSilent(all, now) {
		if address != "10.0.0.3" || len(ids) != 7 {
			t.Errorf("%d of %s are closed; want 7 of 10.0.0.3", len(ids), address)
		}
	}
}

func TestAnAddressWithManySilentConnectionsLosesSome(t *testing.T) {
	t.Parallel()
	g, _ := serves(t, filepath.Join(t.TempDir(), "data"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const many = silentOfOne + 100
	var closed = make(chan struct{}, many)
	for range many {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", g.server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		go func() {
			buf := make([]byte, 4096)
			for {
				if _, err := c.Read(buf); err != nil {
					closed <- struct{}{}
					return
				}
			}
		}()
	}
	began := time.Now()
	polltest.Eventually(t, "those beyond the bound are closed", func() bool { return len(closed) >= many-silentOfOne })
	if n, took := len(closed), time.Since(began); n != many-silentOfOne || took > 15*time.Second {
		t.Errorf("%d of %d are closed after %v; want %d within seconds", n, many, took, many-silentOfOne)
	}
	if names := applications(t, asOperator(t, g)); names != "" {
		t.Errorf("a login beside them lists %s", names)
	}
}
