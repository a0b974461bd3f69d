package allinone

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/google/renameio/v2"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/trust"
)

// TLS says how clients know the bus. The zero value means the Garrison's own CA.
type TLS struct {
	Names []string // host names and addresses of the bus, besides those that it finds by itself
	// Cert, Key and CA are PEM files of the operator's own certificate; without CA, clients know the bus by the
	// CAs of the operating system.
	Cert, Key, CA string
	AllowPlain    bool // let clients of other hosts connect without TLS
}

// certs holds the certificate of the bus. It follows files and CA without a restart.
type certs struct {
	TLS
	trustDir string
	hosts    func() []string // that the certificate must name
	log      zerolog.Logger
	now      func() time.Time

	current atomic.Pointer[tls.Certificate]
	bundle  atomic.Pointer[[]byte]
	changed func() error // called when the bundle changed; may be nil
}

// certsEvery is the interval between two looks at files and CA.
const certsEvery = time.Minute

// config returns the configuration of the bus's listener.
func (c *certs) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}

// Bundle returns the CAs that clients should trust, as PEM; none means those of the operating system.
func (c *certs) Bundle() ([]byte, error) {
	if b := c.bundle.Load(); b != nil {
		return *b, nil
	}
	return nil, nil
}

// run keeps the certificate current. The old one stays in use while a new one cannot be read or made.
func (c *certs) run(ctx context.Context) error {
	tick := time.NewTicker(certsEvery)
	defer tick.Stop()
	var said string
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := c.load()
		if err != nil && err.Error() != said {
			c.log.Error().Err(err).Time("until", c.current.Load().Leaf.NotAfter).
				Msg("certificate of the bus not renewed; the old one stays in use")
		}
		if said = ""; err != nil {
			said = err.Error()
		}
	}
}

// load reads or renews the certificate where that is due.
func (c *certs) load() error {
	next := c.own
	if c.Cert != "" {
		next = c.operators
	}
	now := c.current.Load()
	cert, bundle, err := next(now)
	if err != nil {
		return err
	}
	if now == nil || !slices.EqualFunc(now.Certificate, cert.Certificate, bytes.Equal) {
		c.current.Store(cert)
		c.log.Info().Time("until", cert.Leaf.NotAfter).Str("names", strings.Join(namesOf(cert), " ")).
			Str("sha256", trust.Fingerprint(cert.Leaf)).Msg("certificate of the bus")
	}
	if was := c.bundle.Load(); was != nil && bytes.Equal(*was, bundle) {
		return nil
	}
	c.bundle.Store(&bundle)
	if c.changed != nil {
		return c.changed()
	}
	return nil
}

// own returns the certificate by the Garrison's own CA: now, unless that must be renewed.
func (c *certs) own(now *tls.Certificate) (*tls.Certificate, []byte, error) {
	ca, err := trust.OpenCA(c.trustDir, c.now())
	if err != nil {
		return nil, nil, err
	}
	names := slices.Compact(slices.Sorted(slices.Values(slices.Concat(c.Names, c.hosts()))))
	if now != nil && ca.Made(now) && c.now().Before(trust.RenewAt(now.Leaf)) && covers(now, names) {
		return now, ca.Bundle(), nil
	}
	cert, err := ca.Server(names, c.now())
	return &cert, ca.Bundle(), err
}

// operators returns the certificate in the operator's files.
func (c *certs) operators(*tls.Certificate) (*tls.Certificate, []byte, error) {
	cert, err := tls.LoadX509KeyPair(c.Cert, c.Key)
	if err != nil {
		return nil, nil, fmt.Errorf("read the certificate of the bus: %w", err)
	}
	if c.CA == "" {
		return &cert, nil, nil
	}
	bundle, err := trust.ReadBundle(c.CA)()
	if err != nil {
		return nil, nil, err
	}
	all, err := trust.ParseBundle(bundle)
	if err != nil {
		return nil, nil, err
	}
	for _, ca := range all { // tokens hold only fingerprints, so the chain must show the CA
		if !slices.ContainsFunc(cert.Certificate, func(der []byte) bool { return bytes.Equal(der, ca.Raw) }) {
			cert.Certificate = append(cert.Certificate, ca.Raw)
		}
	}
	return &cert, bundle, nil
}

var loopbackNames = []string{"localhost", "127.0.0.1", "::1"}

// localNames returns the names and addresses of this host.
func localNames() []string {
	names := slices.Clone(loopbackNames)
	if host, err := os.Hostname(); err == nil && host != "" {
		names = append(names, host)
	}
	addresses, _ := net.InterfaceAddrs() // without them, the certificate has fewer names
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			names = append(names, n.IP.String())
		}
	}
	return names
}

func namesOf(cert *tls.Certificate) []string {
	names := slices.Clone(cert.Leaf.DNSNames)
	for _, ip := range cert.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

func covers(cert *tls.Certificate, names []string) bool {
	have := namesOf(cert)
	return !slices.ContainsFunc(names, func(n string) bool { return !slices.Contains(have, n) })
}

// isWildcard reports whether a listen address is every address of this host.
func isWildcard(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }

// BusCertificate is the file of a bus in a process of its own: its key and certificate.
func BusCertificate(data string) string { return filepath.Join(data, "trust", "tls", "bus.pem") }

// writeCert keeps the certificate of a bus in a process of its own current. It returns nil when nothing changed.
func writeCert(data string, names []string, now time.Time) (*tls.Certificate, error) {
	c := &certs{
		trustDir: filepath.Join(data, "trust"),
		hosts:    func() []string { return append(names, loopbackNames...) },
		now:      func() time.Time { return now },
	}
	var have *tls.Certificate
	if pair, err := tls.LoadX509KeyPair(BusCertificate(data), BusCertificate(data)); err == nil {
		have = &pair
	}
	cert, _, err := c.own(have)
	if err != nil || cert == have {
		return nil, err
	}
	text, err := trust.EncodePair(*cert)
	if err != nil {
		return nil, err
	}
	return cert, renameio.WriteFile(BusCertificate(data), text, 0o600)
}
