package webhook

import (
	"crypto/tls"
	"encoding/pem"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestATargetInsideIsRefusedUnlessTheRouteAllowsIt(t *testing.T) {
	outside := route{url: "https://example.com"}
	inside := route{url: "https://example.com", allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}}
	plain := route{url: "http://example.com", allow: inside.allow}
	for _, c := range []struct {
		route   *route
		address string
		passes  bool
	}{
		{&outside, "8.8.8.8:443", true}, {&outside, "[2606:4700::1]:443", true},
		{&outside, "127.0.0.1:443", false}, {&outside, "127.9.9.9:443", false}, {&outside, "[::1]:443", false},
		{&outside, "0.0.0.0:443", false}, {&outside, "[::]:443", false}, {&outside, "169.254.169.254:80", false},
		{&outside, "[fd00:ec2::254]:80", false}, {&outside, "[fe80::1%eth0]:443", false},
		{&outside, "10.1.2.3:443", false}, {&outside, "172.31.0.1:443", false}, {&outside, "192.168.1.1:443", false},
		{&outside, "100.100.100.200:80", false}, {&outside, "224.0.0.1:443", false}, {&outside, "[ff02::1]:443", false},
		{&outside, "255.255.255.255:443", false}, {&outside, "[::ffff:127.0.0.1]:443", false},
		{&outside, "[::127.0.0.1]:443", false}, {&outside, "[64:ff9b::7f00:1]:443", false},
		{&outside, "[2002:7f00:1::]:443", false}, {&outside, "nonsense", false},
		{&inside, "10.1.2.3:443", true}, {&inside, "[::ffff:10.1.2.3]:443", true}, {&inside, "10.2.0.1:443", false},
		{&inside, "8.8.8.8:443", true}, {&plain, "10.1.2.3:80", true}, {&plain, "8.8.8.8:80", false},
	} {
		if err := c.route.checkTarget(c.address); (err == nil) != c.passes {
			t.Errorf("%s at %s: %v, want that it passes: %t", c.route.url, c.address, err, c.passes)
		}
	}
}

// attempt sends one request to a route's address.
func attempt(t *testing.T, r route) answer {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := r.newClient()
	defer c.CloseIdleConnections()
	return post(t.Context(), c, time.Minute, q, time.Now())
}

func TestANameThatLeadsToThisHostIsRefusedWhenItIsDialed(t *testing.T) {
	in := newTarget(t, nil)
	_, port, err := net.SplitHostPort(in.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	r := route{url: "http://localhost:" + port, allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	if got := attempt(t, r); got.err == nil || !strings.Contains(got.err.Error(), "does not allow") {
		t.Errorf("a name that leads here: %+v", got)
	}
	r.allow = append(r.allow, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
	if got := attempt(t, r); got.status != http.StatusOK {
		t.Errorf("allowed: %+v", got)
	}
	if len(in.got) != 1 {
		t.Errorf("%d requests arrived, want that which is allowed", len(in.got))
	}
}

func TestAProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	proxy, in := newTarget(t, nil), newTarget(t, nil)
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("ALL_PROXY", proxy.URL)
	r := route{url: in.URL, allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if got := attempt(t, r); got.status != http.StatusOK || len(proxy.got) != 0 || len(in.got) != 1 {
		t.Errorf("%+v; %d requests at the proxy, %d at the target", got, len(proxy.got), len(in.got))
	}
	transport, ok := r.newClient().Transport.(*http.Transport)
	if !ok || transport.Proxy != nil { // net/http reads the environment once, and exempts loopback
		t.Error("the transport has a proxy")
	}
}

func TestATargetIsKnownByItsCertificateAndSpeaksTLS12(t *testing.T) {
	allow := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	serve := func(most uint16) (*httptest.Server, []byte) {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		s.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: most} //nolint:gosec // an old target
		s.Config.ErrorLog = nil
		s.StartTLS()
		t.Cleanup(s.Close)
		return s, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	}
	good, ca := serve(tls.VersionTLS13)
	if got := attempt(t, route{url: good.URL, allow: allow}); got.err == nil ||
		!strings.Contains(got.err.Error(), "certificate") {
		t.Errorf("an unknown certificate: %+v", got)
	}
	if got := attempt(t, route{url: good.URL, allow: allow, ca: ca}); got.status != http.StatusOK {
		t.Errorf("with its CA: %+v", got)
	}
	old, ca := serve(tls.VersionTLS11)
	if got := attempt(t, route{url: old.URL, allow: allow, ca: ca}); got.err == nil ||
		!strings.Contains(got.err.Error(), "version") {
		t.Errorf("TLS 1.1: %+v", got)
	}
}

func TestRetryAfterIsSecondsOrATime(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Duration{
		"": 0, "7": 7 * time.Second, "-1": 0, "x": 0, "99999999999999": math.MaxInt64,
		"Sat, 31 Jan 2026 12:01:00 GMT": time.Minute, "Sat, 31 Jan 2026 11:00:00 GMT": 0,
	} {
		if got := retryAfter(text, now); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}
