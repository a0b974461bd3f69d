package bench

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// connectors is how many clients connect at the same time.
const connectors = 32

// connected is what n connections cost the bus.
type connected struct{ rate, cpu, kb float64 }

// BenchmarkConnect measures servers that connect at once and stay: without TLS, with it, and with a resumed session.
// The clients run on the same cores.
func BenchmarkConnect(b *testing.B) {
	how := []string{"plain", "TLS", "TLS, resumed"}
	costs := map[string][]connected{}
	for range rounds {
		for _, h := range how {
			costs[h] = append(costs[h], connectAll(b, asked.scaled(2000), h))
		}
	}
	of := func(h string, get func(connected) float64) (out []float64) {
		for _, c := range costs[h] {
			out = append(out, get(c))
		}
		return out
	}
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
			report(b, figure{
				"keys and " + h + ", " + f.name, spread(ours, f.format), "keys, plain: " + spread(plain, f.format),
				ratio(median(ours), median(plain)), "",
			})
		}
	}
}

// connectAll connects n servers to a new garrisond.
func connectAll(b *testing.B, n int, how string) connected {
	w := busOnly(b, rig.Options{})
	defer w.end()
	connect := must(w.connector(how))(b)
	first := must(connect())(b) // sets the accounts up, and keeps a session
	defer first.Close()
	before := must(rig.Uses(w.Garrisond.Pid()))(b)
	var conns []*nats.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	took := timed(func() { conns = must(many(n, connect))(b) })
	after := must(rig.Uses(w.Garrisond.Pid()))(b)
	return connected{
		rate: float64(n) / took, cpu: (after.CPU - before.CPU).Seconds() * 1000 / float64(n),
		kb: (after.ResidentKB - before.ResidentKB) / float64(n),
	}
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

// many does something n times, from several goroutines at once, and returns what came of it.
func many[T any](n int, do func() (T, error)) (all []T, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	for c := range connectors {
		wg.Go(func() {
			for i := c; i < n; i += connectors {
				one, e := do()
				mu.Lock()
				if err = errors.Join(err, e); e == nil {
					all = append(all, one)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all, err
}
