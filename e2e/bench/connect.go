package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// connectors is how many clients connect at the same time.
const connectors = 32

// connected is what n connections cost the bus.
type connected struct{ rate, cpu, kb float64 }

// measureConnect measures servers that connect at once and stay: without TLS, with it, and with a resumed session. The
// clients run on the same cores.
func measureConnect(ctx context.Context, s settings) ([]figure, error) {
	n := s.scaled(2000)
	how := []string{"plain", "TLS", "TLS, resumed"}
	costs := map[string][]connected{}
	for range 3 {
		for _, h := range how {
			c, err := connectAll(ctx, s, n, h)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", h, err)
			}
			costs[h] = append(costs[h], c)
		}
	}
	of := func(h string, get func(connected) float64) (out []float64) {
		for _, c := range costs[h] {
			out = append(out, get(c))
		}
		return out
	}
	var out []figure
	for _, f := range []struct {
		name, format string
		get          func(connected) float64
	}{
		{"connects/s", "%.0f", func(c connected) float64 { return c.rate }},
		{"CPU s of garrisond for 1,000 connects", "%.2f", func(c connected) float64 { return c.cpu }},
		{"resident KB of garrisond for a connection", "%.0f", func(c connected) float64 { return c.kb }},
	} {
		plain := of("plain", f.get)
		for _, h := range how[1:] {
			ours := of(h, f.get)
			out = append(out, figure{
				"keys and " + h + ", " + f.name, spread(ours, f.format), "keys, plain: " + spread(plain, f.format),
				ratio(median(ours), median(plain)), "",
			})
		}
	}
	return out, nil
}

// connectAll connects n servers to a new garrisond.
func connectAll(ctx context.Context, s settings, n int, how string) (_ connected, err error) {
	w, err := newWorld(ctx, s, true)
	if err != nil {
		return connected{}, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	connect, err := w.connector(how)
	if err != nil {
		return connected{}, err
	}
	first, err := connect() // sets the accounts up, and keeps a session
	if err != nil {
		return connected{}, err
	}
	defer first.Close()
	pid := w.Garrisond.Pid()
	cpu, kb, err := usage(pid)
	if err != nil {
		return connected{}, err
	}
	started := time.Now()
	conns, err := many(n, connect)
	took := time.Since(started)
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	if err != nil {
		return connected{}, err
	}
	cpuAfter, kbAfter, err := usage(pid)
	return connected{
		rate: float64(n) / took.Seconds(), cpu: (cpuAfter - cpu).Seconds() * 1000 / float64(n),
		kb: (kbAfter - kb) / float64(n),
	}, err
}

// connector returns a function that connects a new server.
func (w *world) connector(how string) (func() (*nats.Conn, error), error) {
	signer, err := trust.OpenSigner(filepath.Join(w.DataDir(), "trust", "signer"))
	if err != nil {
		return nil, err
	}
	url, options := w.URL(), []nats.Option{nats.Timeout(time.Minute)}
	if how != "plain" {
		bundle, err := trust.ReadBundle(w.CAFile())()
		if err != nil {
			return nil, err
		}
		config := &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: x509.NewCertPool()}
		config.RootCAs.AppendCertsFromPEM(bundle)
		if strings.HasSuffix(how, "resumed") {
			config.ClientSessionCache = tls.NewLRUClientSessionCache(1)
		}
		url, options = strings.Replace(url, "nats:", "tls:", 1), append(options, nats.Secure(config))
	}
	return func() (*nats.Conn, error) {
		id := ident.New()
		public, seed, err := trust.NewUserKey()
		if err != nil {
			return nil, err
		}
		jwt, err := signer.Server(public, id, topology.DefaultCell, time.Now().Add(time.Hour))
		if err != nil {
			return nil, err
		}
		return nats.Connect(url, append([]nats.Option{
			nats.UserJWTAndSeed(jwt, string(seed)), nats.CustomInboxPrefix(topology.Inbox(id)),
		}, options...)...)
	}, nil
}

// many connects n times, from several goroutines at once.
func many(n int, connect func() (*nats.Conn, error)) ([]*nats.Conn, error) {
	var mu sync.Mutex
	var all []*nats.Conn
	var failed error
	var wg sync.WaitGroup
	for c := range connectors {
		wg.Go(func() {
			for i := c; i < n; i += connectors {
				conn, err := connect()
				mu.Lock()
				if err != nil {
					failed = errors.Join(failed, err)
					mu.Unlock()
					return
				}
				all = append(all, conn)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all, failed
}

// clockTick is the unit of the times in /proc/PID/stat.
const clockTick = 10 * time.Millisecond

// usage returns the processor time and the resident memory of a process.
func usage(pid int) (cpu time.Duration, kb float64, err error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, err
	}
	_, rest, _ := strings.Cut(string(data), ") ") // behind the name of the program
	fields := strings.Fields(rest)
	var user, system int64
	if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
		return 0, 0, err
	}
	kb, err = memoryKB(pid, "VmRSS")
	return time.Duration(user+system) * clockTick, kb, err
}
