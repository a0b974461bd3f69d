package trust

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	caValidity          = 10 * 365 * 24 * time.Hour
	certificateValidity = 90 * 24 * time.Hour
	// backdate is how far a client's clock may be behind that of the bus.
	backdate = 24 * time.Hour
)

// CA is the certificate authority of one Garrison:
//
//	keys/tls-ca.pem  its key and certificate; during a change to another CA also that certificate signed by the CA
//	                 before, and the CA before
//	tls/ca.pem       the bundle: the certificates that clients trust, two during a change
type CA struct {
	dir    string
	signs  caPair
	bundle []byte
}

// caPair is the key of a CA and its chain, which begins with its own certificate.
type caPair struct {
	cert  *x509.Certificate
	chain [][]byte
	key   crypto.Signer
}

// OpenCA reads the CA in the directory of an authority, and creates it if it is missing.
func OpenCA(dir string, at time.Time) (*CA, error) {
	c := &CA{dir: dir}
	for _, d := range []string{dir, c.path("keys"), c.path("tls")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("make CA: %w", err)
		}
	}
	bundle, err := os.ReadFile(c.BundleFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	c.bundle = bundle
	c.signs, err = c.read()
	switch {
	case errors.Is(err, fs.ErrNotExist) && len(bundle) > 0:
		return nil, fmt.Errorf("the key of the CA is no longer in %s; put it back, or delete %s: then each server "+
			"needs a new token and each person a new context", c.keyFile(), c.BundleFile())
	case errors.Is(err, fs.ErrNotExist):
		if c.signs, err = newCA(at); err == nil {
			err = c.keep()
		}
	}
	if err != nil {
		return nil, err
	}
	return c, c.trust(c.signs.cert)
}

// BundleFile returns the path of the bundle.
func (c *CA) BundleFile() string { return c.path("tls", "ca.pem") }

// Bundle returns the certificates that clients trust, as PEM.
func (c *CA) Bundle() []byte { return c.bundle }

// Expires returns when the CA that signs ends.
func (c *CA) Expires() time.Time { return c.signs.cert.NotAfter }

// Server creates a key and a certificate for a bus under its host names and IP addresses. The chain includes
// the CA, for clients that know only its fingerprint, and during a change the CA before.
func (c *CA) Server(names []string, at time.Time) (tls.Certificate, error) {
	leaf := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "garrison bus"},
		KeyUsage: x509.KeyUsageDigitalSignature,
		// The servers of a cluster show it to each other.
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			leaf.IPAddresses = append(leaf.IPAddresses, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	return c.sign(leaf, key, at)
}

// sign signs a certificate of an end entity that is valid from at.
func (c *CA) sign(leaf *x509.Certificate, key *ecdsa.PrivateKey, at time.Time) (tls.Certificate, error) {
	leaf.SerialNumber = newSerial()
	leaf.NotBefore, leaf.NotAfter = at.Add(-backdate), at.Add(certificateValidity)
	if leaf.NotAfter.After(c.signs.cert.NotAfter) {
		leaf.NotAfter = c.signs.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, leaf, c.signs.cert, key.Public(), c.signs.key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("sign certificate: %w", err)
	}
	parsed, err := x509.ParseCertificate(der)
	chain := append([][]byte{der}, c.signs.chain...)
	return tls.Certificate{Certificate: chain, PrivateKey: key, Leaf: parsed}, err
}

// Made reports whether a certificate and its chain are as the CA would make them now.
func (c *CA) Made(cert *tls.Certificate) bool {
	return slices.EqualFunc(cert.Certificate[1:], c.signs.chain, bytes.Equal) &&
		cert.Leaf.CheckSignatureFrom(c.signs.cert) == nil
}

// RenewAt returns the time from which a certificate is to be replaced: when a third of its validity is left.
func RenewAt(leaf *x509.Certificate) time.Time {
	return leaf.NotAfter.Add(-leaf.NotAfter.Sub(leaf.NotBefore) / 3)
}

// Change creates another CA, which signs from now on. Clients that know only the CA before still trust the bus,
// because that CA signed the new one, until Drop. They learn the new bundle meanwhile.
func (c *CA) Change(at time.Time) error {
	before := c.signs
	if len(before.chain) > 1 {
		return fmt.Errorf("the CA is changing already: %s still trusts the one before", c.BundleFile())
	}
	next, err := newCA(at)
	if err != nil {
		return err
	}
	link := template(next.cert.SerialNumber, next.cert.NotBefore, before.cert.NotAfter)
	link.MaxPathLen, link.MaxPathLenZero = 0, true
	der, err := x509.CreateCertificate(rand.Reader, link, before.cert, next.key.Public(), before.key)
	if err != nil {
		return fmt.Errorf("sign the next CA: %w", err)
	}
	next.chain = append(next.chain, der, before.cert.Raw)
	if err := c.trust(next.cert); err != nil {
		return err
	}
	c.signs = next
	return c.keep()
}

// Drop removes every CA but the one that signs from the bundle. Clients that did not learn it are shut out.
func (c *CA) Drop() error {
	c.signs.chain = c.signs.chain[:1]
	if err := c.keep(); err != nil {
		return err
	}
	c.bundle = nil
	return c.trust(c.signs.cert)
}

// trust adds a certificate to the bundle and writes it, unless it is there.
func (c *CA) trust(cert *x509.Certificate) error {
	one := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	if bytes.Contains(c.bundle, one) {
		return nil
	}
	c.bundle = slices.Concat(c.bundle, one)
	return writeFile(c.BundleFile(), c.bundle)
}

// template returns a CA's certificate without its signature.
func template(serial *big.Int, from, until time.Time) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: fmt.Sprintf("garrison CA %.4x", serial.Bytes())},
		NotBefore:             from,
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageCertSign,
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLen:            1, // for the next CA, during a change
	}
}

func newCA(at time.Time) (caPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return caPair{}, err
	}
	ca := template(newSerial(), at.Add(-backdate), at.Add(caValidity))
	der, err := x509.CreateCertificate(rand.Reader, ca, ca, key.Public(), key)
	if err != nil {
		return caPair{}, fmt.Errorf("make CA: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	return caPair{cert, [][]byte{der}, key}, err
}

// keep writes the key of the CA and its chain.
func (c *CA) keep() error {
	text, err := EncodePair(tls.Certificate{Certificate: c.signs.chain, PrivateKey: c.signs.key})
	if err != nil {
		return err
	}
	return writeFile(c.keyFile(), text)
}

func (c *CA) read() (caPair, error) {
	text, err := os.ReadFile(c.keyFile())
	if err != nil {
		return caPair{}, fmt.Errorf("read CA: %w", err)
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return caPair{}, fmt.Errorf("read CA %s: %w", c.keyFile(), err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return caPair{}, fmt.Errorf("read CA %s: not the key and certificate of a CA", c.keyFile())
	}
	return caPair{pair.Leaf, pair.Certificate, key}, nil
}

func (c *CA) path(parts ...string) string { return filepath.Join(append([]string{c.dir}, parts...)...) }

func (c *CA) keyFile() string { return c.path("keys", "tls-ca.pem") }

func newSerial() *big.Int {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // never fails, as crypto/rand does not
	return serial
}
