package bus_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func newCA(t testing.TB) *trust.CA {
	t.Helper()
	ca, err := trust.OpenCA(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func certificate(t testing.TB, ca *trust.CA, at time.Time, names ...string) *tls.Config {
	t.Helper()
	cert, err := ca.Server(names, at)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

// peer listens as a bus would, and lets in everybody who gets that far.
type peer struct {
	net.Listener
	config *tls.Config // nil means no TLS
	logins atomic.Int32
}

func listen(t testing.TB, config *tls.Config) *peer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	p := &peer{Listener: l, config: config}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
	return p
}

func (p *peer) serve(c net.Conn) {
	defer func() { _ = c.Close() }()
	fmt.Fprintf(c, "INFO {\"server_id\":\"x\",\"max_payload\":1024,\"headers\":true,\"tls_required\":%t}\r\n",
		p.config != nil)
	if p.config != nil {
		c = tls.Server(c, p.config)
	}
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		if strings.HasPrefix(line, "CONNECT") {
			p.logins.Add(1)
		}
		if strings.HasPrefix(line, "PING") {
			_, _ = io.WriteString(c, "PONG\r\n")
		}
	}
}

func (p *peer) url(scheme string) string { return scheme + "://" + p.Addr().String() }

// The client sends nothing, not even its name, to a peer that does not prove to be the bus.
func TestAClientSendsNothingToAnotherBus(t *testing.T) {
	t.Parallel()
	ours, other, now := newCA(t), newCA(t), time.Now()
	good := certificate(t, ours, now, "127.0.0.1")
	old := certificate(t, ours, now, "127.0.0.1")
	old.MaxVersion = tls.VersionTLS12
	pins, err := trust.Pins(ours.Bundle())
	if err != nil {
		t.Fatal(err)
	}
	otherPins, _ := trust.Pins(other.Bundle())
	strange, named := certificate(t, other, now, "127.0.0.1"), certificate(t, ours, now, "elsewhere")
	expired := certificate(t, ours, now.AddDate(0, -4, 0), "127.0.0.1")
	early := certificate(t, ours, now.AddDate(0, 0, 7), "127.0.0.1")
	ca := bus.TLS{CA: func() ([]byte, error) { return ours.Bundle(), nil }}
	unreadable := bus.TLS{CA: func() ([]byte, error) { return nil, io.ErrUnexpectedEOF }}
	pinned := bus.TLS{Pins: pins}
	for what, c := range map[string]struct {
		peer   *tls.Config
		trust  bus.TLS
		scheme string
		want   string // the refusal's code; empty means let in
		clock  bool   // it says to set the clock
	}{
		"our bus, by the CA":                    {good, ca, "tls", "", false},
		"our bus, by a pin":                     {good, pinned, "tls", "", false},
		"our bus, by an address without TLS":    {good, ca, "nats", "", false},
		"a bus of another CA":                   {strange, ca, "tls", code.BusNotTrusted, false},
		"a bus of another CA, by a pin":         {strange, pinned, "tls", code.BusNotTrusted, false},
		"a token whose pin was changed":         {good, bus.TLS{Pins: otherPins}, "tls", code.BusNotTrusted, false},
		"another name":                          {named, ca, "tls", code.BusNotTrusted, false},
		"another name, by a pin":                {named, pinned, "tls", code.BusNotTrusted, false},
		"an expired certificate":                {expired, ca, "tls", code.BusNotTrusted, true},
		"an expired certificate, by a pin":      {expired, pinned, "tls", code.BusNotTrusted, true},
		"a certificate that is not valid yet":   {early, ca, "tls", code.BusNotTrusted, true},
		"the CA's own certificate, by a pin":    {stolen(t, ours, other), pinned, "tls", code.BusNotTrusted, false},
		"no CA known":                           {good, bus.TLS{}, "tls", code.BusNotTrusted, false},
		"no TLS where a CA is known":            {nil, ca, "nats", code.BusNotTrusted, false},
		"no TLS where a pin is known":           {nil, pinned, "tls", code.BusNotTrusted, false},
		"no TLS on this host without a CA":      {nil, bus.TLS{}, "nats", "", false},
		"a CA that cannot be read":              {good, unreadable, "nats", "-", false},
		"an old version of TLS":                 {old, ca, "tls", "-", false},
		"an old version of TLS, known by a pin": {old, pinned, "tls", "-", false},
	} {
		t.Run(what, func(t *testing.T) {
			p := listen(t, c.peer)
			conn, err := bus.Dial(bus.Options{URL: p.url(c.scheme), Name: "n", TLS: c.trust, Log: zerolog.Nop()})
			if err == nil {
				conn.Close()
			}
			if got := fault.RefusalOf(err).GetCode(); (err == nil) != (c.want == "") || c.want != "-" && got != c.want {
				t.Errorf("%v; want %q", err, c.want)
			}
			try := fault.RefusalOf(err).GetTry()
			if have := strings.HasPrefix(try, "set the clock of this machine if it is not "); have != c.clock {
				t.Errorf("it says to try %q", try)
			}
			if n := p.logins.Load(); (n == 0) != (c.want != "") {
				t.Errorf("%d logins were sent", n)
			}
		})
	}
}

// stolen presents the CA's own certificate behind a leaf that it did not sign.
func stolen(t testing.TB, ours, other *trust.CA) *tls.Config {
	t.Helper()
	config := certificate(t, other, time.Now(), "127.0.0.1")
	own := certificate(t, ours, time.Now(), "127.0.0.1")
	config.Certificates[0].Certificate[1] = own.Certificates[0].Certificate[1]
	return config
}

// A program that keeps agents running does not end because its bus is not to be trusted.
func TestAPersistentClientWaitsAndSendsNothingInPlain(t *testing.T) {
	t.Parallel()
	var log lines
	c, err := bus.Dial(bus.Options{URL: "nats://10.9.8.7:1", Name: "n", Persist: true, Log: zerolog.New(&log)})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	polltest.Eventually(t, "the refusal is logged",
		func() bool { return strings.Contains(log.String(), code.PlainRefused) })
}

// A refusal must say what was expected, where that is written, what came instead, and what to do.
func TestARefusalOfABusNamesBothSides(t *testing.T) {
	t.Parallel()
	ours, other := newCA(t), newCA(t)
	p := listen(t, certificate(t, other, time.Now(), "127.0.0.1"))
	want, _ := trust.Pins(ours.Bundle())
	got, _ := trust.Pins(other.Bundle())
	var log lines
	c, err := bus.Dial(bus.Options{
		URL: p.url("tls"), Name: "n", Persist: true, Log: zerolog.New(&log),
		TLS: bus.TLS{Pins: want, Source: "the join token", Renew: "garrison server enroll NAME"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	polltest.Eventually(t, "the refusal is logged",
		func() bool { return strings.Contains(log.String(), code.BusNotTrusted) })
	for _, part := range []string{want[0], got[0], "the join token", "garrison server enroll NAME", p.Addr().String()} {
		if !strings.Contains(log.String(), part) {
			t.Errorf("%q is not in %s", part, log.String())
		}
	}
	if a := c.Access(); a.Login != bus.LoginUntrusted || a.Login.Refused() {
		t.Errorf("the login is %s: %s", a.Login, a.Reason)
	}
}
