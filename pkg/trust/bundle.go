package trust

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/regular"
)

// Fingerprint returns the SHA-256 of a certificate, in hexadecimal digits, as openssl prints it without colons.
func Fingerprint(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return hex.EncodeToString(sum[:])
}

// ParseBundle returns the certificates of a PEM text. An error is Invalid, also without any certificate.
func ParseBundle(text []byte) ([]*x509.Certificate, error) {
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fault.New(fault.Invalid, "certificate %d is damaged: %w", len(all)+1, err)
		}
		all = append(all, cert)
	}
	if len(all) == 0 {
		return nil, fault.New(fault.Invalid, "no certificate (want PEM)")
	}
	return all, nil
}

// Pins returns the fingerprints of the certificates in a bundle, or none for an empty one.
func Pins(bundle []byte) ([]string, error) {
	if len(bundle) == 0 {
		return nil, nil
	}
	all, err := ParseBundle(bundle)
	pins := make([]string, len(all))
	for i, cert := range all {
		pins[i] = Fingerprint(cert)
	}
	return pins, err
}

// ReadBundle returns a function that reads a bundle from a file at each call.
func ReadBundle(path string) func() ([]byte, error) {
	return func() ([]byte, error) {
		text, err := regular.ReadFile(path)
		if err == nil {
			_, err = ParseBundle(text)
		}
		if err != nil {
			return nil, fmt.Errorf("read CA %s: %w", path, err)
		}
		return text, nil
	}
}

// EncodePair returns a key and its certificates as PEM.
func EncodePair(pair tls.Certificate) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return append(text, EncodeCertificates(pair.Certificate...)...), nil
}

// EncodeCertificates returns certificates as PEM.
func EncodeCertificates(all ...[]byte) (text []byte) {
	for _, der := range all {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...)
	}
	return text
}
