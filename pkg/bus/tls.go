package bus

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// TLS is how a client knows the bus. With a CA or pins, every connection uses TLS, whatever the scheme of the
// URL. Without them, tls:// trusts the CAs of the operating system, and nats:// is allowed to loopback addresses only.
type TLS struct {
	// CA returns the CAs that may sign the bus's certificate, as PEM; none means Pins. Read again at each connect.
	CA   func() ([]byte, error)
	Pins []string // the SHA-256 of CAs, in hexadecimal digits, for clients that do not have the CA itself

	Source     string // where CA or Pins come from, for refusals: a file, or "the join token"
	Renew      string // what to do when they are out of date, for refusals
	AllowPlain bool   // connect without TLS to other hosts
	// Certificate returns the client's own certificate, or nil; may itself be nil. Read again at each connect.
	Certificate func() (*tls.Certificate, error)
}

// TLSOf returns how a person knows the bus of a context.
func TLSOf(c trust.Context) TLS {
	return TLS{
		CA:         func() ([]byte, error) { return []byte(c.CA), nil },
		Source:     cmp.Or(c.File, "the context of "+c.Actor),
		Renew:      "copy the context again from where it was made, or look at: garrison context list",
		AllowPlain: c.AllowPlain,
	}
}

// secure reports whether each connection to the addresses uses TLS, and whether that is by a CA or pins of our own.
// It refuses plain connections to other hosts.
func (t TLS) secure(urls []*url.URL) (pinned, secure bool, err error) {
	pinned = len(t.Pins) > 0
	if t.CA != nil {
		text, err := t.CA()
		pinned = pinned || err != nil || len(text) > 0 // an unreadable CA is not a missing one
	}
	secure = pinned
	for _, u := range urls {
		secure = secure || u.Scheme == "tls" || u.Scheme == "wss"
	}
	for _, u := range urls {
		if !secure && !t.AllowPlain && !IsLoopback(u.Hostname()) {
			return false, false, plainRefused(u.Redacted()).Try(cmp.Or(t.Renew, "tls:// and the CA of the bus"))
		}
	}
	return pinned, secure, nil
}

func plainRefused(address string) *fault.Error {
	return fault.Refusef(fault.Invalid, code.PlainRefused,
		"%s is another host, and there is no CA to know its bus by: "+
			"without TLS, anybody on the way can read and change everything", address)
}

// parseURLs reads addresses with commas between them, as the client does.
func parseURLs(urls string) (out []*url.URL, err error) {
	for one := range strings.SplitSeq(urls, ",") {
		if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
			one = "nats://" + one
		}
		u, err := url.Parse(one)
		if err != nil {
			return nil, fault.New(fault.Invalid, "address of the bus: %w", err)
		}
		out = append(out, u)
	}
	return out, nil
}

// IsLoopback reports whether a host is this one. A name other than localhost is another host.
func IsLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// options returns the client's options for a connection over TLS, or for one without. A client that persists is
// refused at each connect: a program that keeps agents running must not end.
func (t TLS) options(addresses string, persist bool) ([]nats.Option, error) {
	urls, err := parseURLs(addresses)
	if err != nil {
		return nil, err
	}
	pinned, secure, err := t.secure(urls)
	if err != nil && !persist {
		return nil, err
	}
	switch {
	case !secure && t.AllowPlain:
		return nil, nil
	case !secure:
		return []nats.Option{nats.SetCustomDialer(loopbackDialer{})}, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS13}
	if own := t.Certificate; own != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			cert, err := own()
			if cert == nil && err == nil {
				cert = &tls.Certificate{} // the client has none
			}
			return cert, err
		}
	}
	opts := []nats.Option{nats.Secure(config)}
	switch {
	case len(t.Pins) > 0:
		// The CA itself is unknown before the handshake, so verifyPins does what the library does with a known one.
		config.InsecureSkipVerify = true
		config.VerifyConnection = t.verifyPins(urls)
	case pinned:
		opts = append(opts, func(o *nats.Options) error { o.RootCAsCB = t.roots; return nil })
	}
	return opts, nil
}

// loopbackDialer connects to this host only: a bus names further addresses, which need not be here.
type loopbackDialer struct{}

// Dial implements nats.CustomDialer.
func (loopbackDialer) Dial(network, address string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(address); err != nil || !IsLoopback(host) {
		return nil, plainRefused(address)
	}
	return net.DialTimeout(network, address, DefaultTimeout)
}

// roots returns the CAs as the library takes them.
func (t TLS) roots() (*x509.CertPool, error) {
	text, err := t.CA()
	pool := x509.NewCertPool()
	if err == nil && !pool.AppendCertsFromPEM(text) {
		err = fmt.Errorf("no certificate in %s", t.Source)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnreadable, err)
	}
	return pool, nil
}

// verifyPins returns a function that verifies the bus's certificate by those CAs of its chain whose fingerprints
// are known.
func (t TLS) verifyPins(urls []*url.URL) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
		for _, cert := range s.PeerCertificates[1:] {
			if o.Intermediates.AddCert(cert); slices.Contains(t.Pins, trust.Fingerprint(cert)) {
				o.Roots.AddCert(cert)
			}
		}
		names := []string{s.ServerName}
		if s.ServerName == "" { // an IP address, which is not part of the handshake
			names = addresses(urls)
		}
		err := errors.New("the address is not one of the configured ones")
		for _, o.DNSName = range names {
			if _, err = s.PeerCertificates[0].Verify(o); err == nil {
				return nil
			}
		}
		return &tls.CertificateVerificationError{UnverifiedCertificates: s.PeerCertificates, Err: err}
	}
}

// addresses returns the IP addresses among hosts.
func addresses(urls []*url.URL) (out []string) {
	for _, u := range urls {
		if net.ParseIP(u.Hostname()) != nil {
			out = append(out, u.Hostname())
		}
	}
	return out
}

// untrusted reports whether a connect failed because the other side did not prove to be the bus.
func untrusted(err error) bool {
	_, bad := errors.AsType[*tls.CertificateVerificationError](err)
	return bad || errors.Is(err, nats.ErrSecureConnWanted) ||
		fault.RefusalOf(err).GetCode() == code.BusNotTrusted
}

// explain turns the error of a connect to an untrusted bus into a refusal. It returns any other error as it is.
func (t TLS) explain(urls string, err error) error {
	if err == nil || !untrusted(err) {
		return err
	}
	return fault.Refusef(fault.Denied, code.BusNotTrusted, "%s is not trusted: %s; %s names %s. Nothing was sent to it",
		urls, t.seen(err), cmp.Or(t.Source, "this machine"), t.wanted()).
		Try(setClock(err, time.Now()) + cmp.Or(t.Renew, "the CA of the bus"))
}

// setClock returns what to try first when a certificate that was presented is not valid at a time, by this machine's
// clock; "" when all are.
func setClock(err error, now time.Time) string {
	bad, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok || !slices.ContainsFunc(bad.UnverifiedCertificates, func(c *x509.Certificate) bool {
		return now.Before(c.NotBefore) || now.After(c.NotAfter)
	}) {
		return ""
	}
	return "set the clock of this machine if it is not " + now.UTC().Format(time.RFC3339) + "; otherwise "
}

// seen describes what the other side presented.
func (t TLS) seen(err error) string {
	bad, ok := errors.AsType[*tls.CertificateVerificationError](err)
	if !ok {
		return "it offers no TLS"
	}
	var chain []string
	for _, cert := range bad.UnverifiedCertificates {
		chain = append(chain, fmt.Sprintf("%s (sha256 %s, %s to %s)", cert.Subject, trust.Fingerprint(cert),
			cert.NotBefore.Format("2006-01-02"), cert.NotAfter.Format("2006-01-02")))
	}
	return fmt.Sprintf("%v; it presented %s", bad.Err, strings.Join(chain, ", "))
}

// wanted describes the CAs that the client trusts.
func (t TLS) wanted() string {
	pins := t.Pins
	if t.CA != nil && len(pins) == 0 {
		text, err := t.CA()
		if err != nil {
			return err.Error()
		}
		pins, _ = trust.Pins(text) // a damaged CA failed before
	}
	if len(pins) == 0 {
		return "no CA, so the CAs of the operating system count"
	}
	return "the CA with sha256 " + strings.Join(pins, " or ")
}
