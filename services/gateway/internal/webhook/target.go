package webhook

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The bounds of one attempt.
const (
	dialWithin   = 10 * time.Second
	mostAnswer   = 4 << 10
	mostHeader   = 16 << 10
	mostIdle     = 2 * time.Minute // how long a connection stays open
	finishWithin = 2 * time.Second
)

// refused lists the networks that no route reaches unless it allows them: this host, neighbours, private networks and
// those of a provider's metadata, and the ranges of IPv6 that hold an address of IPv4.
var refused = prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
	"224.0.0.0/3", "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32", "2002::/16",
	"fc00::/7", "fe80::/9", "ff00::/8")

func prefixes(all ...string) (out []netip.Prefix) {
	for _, p := range all {
		out = append(out, netip.MustParsePrefix(p))
	}
	return out
}

// checkTarget refuses the address to which the name of a target was resolved. It runs before each connection, so that
// a name that changes its address does not pass.
func (r *route) checkTarget(address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return errors.New("the address of the target cannot be read")
	}
	ip := at.Addr().Unmap().WithZone("")
	within := func(p netip.Prefix) bool { return p.Contains(ip) }
	if slices.ContainsFunc(r.allow, within) {
		return nil
	}
	if strings.HasPrefix(r.url, "http:") || slices.ContainsFunc(refused, within) {
		return fmt.Errorf("the target is at %s, which the route does not allow. Try: allow: [%s]", ip,
			netip.PrefixFrom(ip, ip.BitLen()))
	}
	return nil
}

// newClient returns the client of a route. It uses no proxy of the environment: a proxy would connect to the target in
// its stead, where checkTarget does not see the address.
func (r *route) newClient() *http.Client {
	dialer := &net.Dialer{
		Timeout: dialWithin,
		Control: func(_, address string, _ syscall.RawConn) error { return r.checkTarget(address) },
	}
	t := &http.Transport{
		Proxy: nil, DialContext: dialer.DialContext, ForceAttemptHTTP2: true,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout: dialWithin, MaxResponseHeaderBytes: mostHeader, MaxConnsPerHost: 1,
		IdleConnTimeout: mostIdle, DisableCompression: true,
	}
	if r.ca != nil {
		t.TLSClientConfig.RootCAs = x509.NewCertPool()
		t.TLSClientConfig.RootCAs.AppendCertsFromPEM(r.ca)
	}
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// answer is what a target answered.
type answer struct {
	status int
	after  time.Duration // Retry-After; 0 without one
	text   string        // the start of its body
	err    error         // there was no answer; without the address of the target
}

// post sends a request once. When ctx ends it waits for the answer for finishWithin: a delivery whose answer was
// not noted is sent again.
func post(ctx context.Context, c *http.Client, within time.Duration, q *http.Request, now time.Time) answer {
	stopping := ctx
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	defer cancel()
	defer context.AfterFunc(stopping, func() {
		if !errors.Is(context.Cause(stopping), errChanged) { // a route that changed has the whole time
			time.AfterFunc(finishWithin, cancel)
		}
	})()
	resp, err := c.Do(q.WithContext(ctx))
	if err != nil {
		return answer{err: withoutAddress(err)}
	}
	defer func() { _ = resp.Body.Close() }()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, mostAnswer)) // the status counts, not the body
	return answer{status: resp.StatusCode, after: retryAfter(resp.Header.Get("Retry-After"), now), text: string(text)}
}

// withoutAddress returns an error of net/http without the address of the request, which is a secret.
func withoutAddress(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("the target did not answer in time")
	}
	return err
}

// retryAfter reads the header: seconds, or a time.
func retryAfter(text string, now time.Time) time.Duration {
	s, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err == nil:
		return time.Duration(s) * time.Second
	case errors.Is(err, strconv.ErrRange):
		return math.MaxInt64
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
