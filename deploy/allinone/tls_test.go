package allinone_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// outside returns an address of this machine that is not loopback.
func outside(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && n.IP.IsGlobalUnicast() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address besides loopback")
	return ""
}

func startWith(t *testing.T, c allinone.Config) *allinone.Garrison {
	t.Helper()
	c.Lazy, c.Log = true, zerolog.Nop()
	if c.Data == "" {
		c.Data = t.TempDir()
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	g, err := allinone.Start(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	run(t, g)
	return g
}

func contextOf(t *testing.T, g *allinone.Garrison) trust.Context {
	t.Helper()
	c, err := trust.ReadContext(g.ContextFile())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// plain logs in without TLS, as a client of NATS that does what the attacker wants.
func plain(t *testing.T, address string, who trust.Context) error {
	t.Helper()
	nc, err := nats.Connect("nats://"+address, nats.UserJWTAndSeed(who.JWT, who.Seed),
		nats.SetCustomDialer(dialer(func(network, address string) (net.Conn, error) {
			c, err := net.DialTimeout(network, address, 5*time.Second)
			return &withoutTLS{Conn: c}, err
		})))
	if err != nil {
		return err
	}
	defer nc.Close()
	return nc.FlushTimeout(5 * time.Second)
}

type dialer func(network, address string) (net.Conn, error)

func (d dialer) Dial(network, address string) (net.Conn, error) { return d(network, address) }

// withoutTLS hides from the client that the bus wants TLS.
type withoutTLS struct {
	net.Conn
	said bool
}

func (c *withoutTLS) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.said {
		return n, err
	}
	c.said = true
	text := strings.NewReplacer(`"tls_required":true,`, "", `"tls_available":true,`, "").Replace(string(b[:n]))
	return copy(b, text), err
}

func TestNoClientOfAnotherHostConnectsWithoutTLS(t *testing.T) {
	t.Parallel()
	address := outside(t)
	for what, c := range map[string]struct {
		listen  string
		allowed bool // by --allow-plain
		from    string
		in      bool
	}{
		"an outside address":              {address, false, address, false},
		"every address, from outside":     {"0.0.0.0", false, address, false},
		"every address, from this host":   {"0.0.0.0", false, "127.0.0.1", false},
		"every address, plain is allowed": {"0.0.0.0", true, address, true},
		"loopback":                        {"127.0.0.1", false, "127.0.0.1", true},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			g := startWith(t, allinone.Config{
				Listen: net.JoinHostPort(c.listen, "0"), Advertise: address, TLS: allinone.TLS{AllowPlain: c.allowed},
			})
			who := contextOf(t, g)
			_, port, _ := strings.Cut(strings.TrimPrefix(who.URL, "tls://"), ":")
			if err := plain(t, net.JoinHostPort(c.from, port), who); (err == nil) != c.in {
				t.Errorf("without TLS: %v; want let in: %t", err, c.in)
			}
			for _, url := range []string{who.URL, "tls://" + net.JoinHostPort(c.from, port)} {
				who.URL = url
				conn, err := client.Connect(t.Context(), client.Options{Context: who})
				if err != nil {
					t.Errorf("with TLS to %s: %v", url, err)
					continue
				}
				conn.Close()
			}
		})
	}
}

func TestAnOldVersionOfTLSIsRefused(t *testing.T) {
	t.Parallel()
	g := startWith(t, allinone.Config{Listen: "127.0.0.1:0"})
	who := contextOf(t, g)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(who.CA))
	for version, in := range map[uint16]bool{tls.VersionTLS12: false, tls.VersionTLS13: true} {
		nc, err := nats.Connect(who.URL, nats.Timeout(time.Minute), nats.UserJWTAndSeed(who.JWT, who.Seed),
			nats.Secure(&tls.Config{RootCAs: roots, MaxVersion: version, MinVersion: version}))
		if (err == nil) != in {
			t.Errorf("%s: %v; want let in: %t", tls.VersionName(version), err, in)
		}
		if err == nil {
			nc.Close()
		}
	}
}

// between forwards to a bus and presents a certificate of its own, as a man in the middle does.
func between(t *testing.T, config *tls.Config, target string) (address string, read *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	read = &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go intercept(c, config, target, read)
		}
	}()
	return l.Addr().String(), read
}

func intercept(c net.Conn, config *tls.Config, target string, read *atomic.Int64) {
	defer func() { _ = c.Close() }()
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer func() { _ = up.Close() }()
	info := make([]byte, 4096) // the bus greets in plain
	n, err := up.Read(info)
	if err != nil {
		return
	}
	_, _ = c.Write(info[:n])
	secret := tls.Server(c, config)
	buffer := make([]byte, 4096)
	n, _ = secret.Read(buffer)
	read.Add(int64(n))
}

func TestAMachineInBetweenLearnsNothing(t *testing.T) {
	t.Parallel()
	g := startWith(t, allinone.Config{Listen: "127.0.0.1:0"})
	who := contextOf(t, g)
	evil, err := trust.OpenCA(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := evil.Server([]string{"127.0.0.1"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	address, read := between(t, &tls.Config{Certificates: []tls.Certificate{cert}},
		strings.TrimPrefix(who.URL, "tls://"))
	pins, err := trust.Pins([]byte(who.CA))
	if err != nil {
		t.Fatal(err)
	}
	for what, known := range map[string]bus.TLS{
		"a person": bus.TLSOf(who), "a server that joins": {Pins: pins}, "the CAs of the system": {},
	} {
		for _, scheme := range []string{"tls", "nats"} {
			if known.CA == nil && known.Pins == nil && scheme == "nats" {
				continue // plain, which loopback allows
			}
			c, err := bus.Dial(bus.Options{
				URL: scheme + "://" + address, Name: "n", TLS: known, Credentials: who.Credentials, Log: zerolog.Nop(),
			})
			if err == nil {
				c.Close()
			}
			if fault.RefusalOf(err).GetCode() != code.BusNotTrusted || read.Load() != 0 {
				t.Errorf("%s by %s://: %v, %d bytes read; want %s", what, scheme, err, read.Load(), code.BusNotTrusted)
			}
		}
	}
}

// certificate returns the one that the bus presents now.
func certificate(t *testing.T, who trust.Context) *x509.Certificate {
	t.Helper()
	nc, err := nats.Connect(who.URL, nats.Timeout(time.Minute), nats.UserJWTAndSeed(who.JWT, who.Seed),
		nats.Secure(&tls.Config{InsecureSkipVerify: true}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	state, err := nc.TLSConnectionState()
	if err != nil {
		t.Fatal(err)
	}
	return state.PeerCertificates[0]
}

func TestAClientKnowsUntilWhenTheCertificateOfTheBusIsValid(t *testing.T) {
	t.Parallel()
	g := startWith(t, allinone.Config{Data: t.TempDir(), Listen: "127.0.0.1:0"})
	c, err := client.Connect(t.Context(), client.Options{Context: contextOf(t, g)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if have, want := client.CertificateUntil(c), certificate(t, contextOf(t, g)).NotAfter; !have.Equal(want) {
		t.Errorf("until %v, want %v", have, want)
	}
}

// A server that has learned both CAs stays in through the whole change, and the bus is not restarted.
func TestTheCAChangesWhileTheBusRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := startWith(t, allinone.Config{Data: dir, Listen: "127.0.0.1:0"})
	before := certificate(t, contextOf(t, g))
	for _, step := range []string{"begin", "end"} {
		was := contextOf(t, g)
		if err := allinone.WriteKeys(allinone.Keys{Data: dir, URL: was.URL, ChangeCA: step}); err != nil {
			t.Fatal(err)
		}
		if err := g.ReloadCertificates(); err != nil {
			t.Fatal(err)
		}
		for what, who := range map[string]trust.Context{"before": was, "after": contextOf(t, g)} {
			c, err := client.Connect(t.Context(), client.Options{Context: who})
			if err != nil {
				t.Errorf("with the context of %s the step %s: %v", what, step, err)
				continue
			}
			c.Close()
		}
	}
	if after := certificate(t, contextOf(t, g)); after.Issuer.CommonName == before.Issuer.CommonName {
		t.Errorf("still signed by %s", after.Issuer)
	}
}

// The operator's own certificate is followed, and a damaged one does not replace a good one.
func TestAnOperatorsCertificateIsFollowed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca, err := trust.OpenCA(filepath.Join(dir, "ca"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "bus.pem")
	write := func() {
		cert, err := ca.Server([]string{"127.0.0.1"}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		cert.Certificate = cert.Certificate[:1] // as many CAs hand it out
		text, err := trust.EncodePair(cert)
		if err == nil {
			err = os.WriteFile(file, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write()
	g := startWith(t, allinone.Config{
		Listen: "127.0.0.1:0", TLS: allinone.TLS{Cert: file, Key: file, CA: ca.BundleFile()},
	})
	who := contextOf(t, g)
	first := certificate(t, who)
	if err := os.WriteFile(file, []byte("half a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.ReloadCertificates(); err == nil || !certificate(t, who).Equal(first) {
		t.Errorf("a damaged file: %v", err)
	}
	write()
	if err := g.ReloadCertificates(); err != nil || certificate(t, who).Equal(first) {
		t.Errorf("the new certificate is not used: %v", err)
	}
	pins, err := trust.Pins([]byte(who.CA))
	if err != nil || len(pins) != 1 {
		t.Fatalf("pins %v, %v", pins, err)
	}
	for what, known := range map[string]bus.TLS{"a person": bus.TLSOf(who), "a server that joins": {Pins: pins}} {
		c, err := bus.Dial(bus.Options{
			URL: who.URL, Name: who.Actor, TLS: known, Credentials: who.Credentials, Log: zerolog.Nop(),
		})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		c.Close()
	}
}

// A bus of its own gets its certificate from `garrisond keys`, which changes it only when that is due.
func TestKeysRenewTheCertificateOfABusApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := allinone.Keys{Data: dir, URL: "tls://bus:4222,tls://bus2:4222"}
	read := func() string {
		if err := allinone.WriteKeys(k); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(allinone.BusCertificate(dir))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	first := read()
	pair, err := tls.X509KeyPair([]byte(first), []byte(first))
	if err != nil || pair.Leaf.VerifyHostname("bus2") != nil || pair.Leaf.VerifyHostname("127.0.0.1") != nil {
		t.Errorf("not a certificate for bus2 and 127.0.0.1: %v", err)
	}
	if read() != first {
		t.Error("renewed although nothing changed")
	}
	if k.Names = []string{"bus3"}; read() == first {
		t.Error("not renewed for another name")
	}
	var c map[string]any
	text, err := os.ReadFile(filepath.Join(dir, "operator.json"))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || !strings.Contains(c["ca"].(string), "BEGIN CERTIFICATE") {
		t.Errorf("the context has no CA: %v", err)
	}
}
