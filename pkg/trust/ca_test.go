package trust_test

import (
	"crypto/x509"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/trust"
)

var caMade = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func openCA(t testing.TB, dir string) *trust.CA {
	t.Helper()
	ca, err := trust.OpenCA(dir, caMade)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// accepts reports why a client with a bundle refuses a bus's new certificate under a name.
func accepts(t testing.TB, bundle []byte, ca *trust.CA, name string, at time.Time) error {
	t.Helper()
	cert, err := ca.Server([]string{"bus", "127.0.0.1"}, caMade)
	if err != nil {
		t.Fatal(err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AppendCertsFromPEM(bundle)
	between.AppendCertsFromPEM(trust.EncodeCertificates(cert.Certificate[1:]...))
	_, err = cert.Leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, DNSName: name, CurrentTime: at})
	return err
}

func TestTheCASignsWhatItsClientsAccept(t *testing.T) {
	t.Parallel()
	ca, other := openCA(t, t.TempDir()), openCA(t, t.TempDir())
	for what, c := range map[string]struct {
		bundle []byte
		name   string
		at     time.Time
		ok     bool
	}{
		"a host name":               {ca.Bundle(), "bus", caMade, true},
		"an address":                {ca.Bundle(), "127.0.0.1", caMade, true},
		"a clock behind by hours":   {ca.Bundle(), "bus", caMade.Add(-12 * time.Hour), true},
		"another name":              {ca.Bundle(), "elsewhere", caMade, false},
		"another CA":                {other.Bundle(), "bus", caMade, false},
		"an expired certificate":    {ca.Bundle(), "bus", caMade.Add(91 * 24 * time.Hour), false},
		"a clock behind by a month": {ca.Bundle(), "bus", caMade.AddDate(0, -1, 0), false},
	} {
		if err := accepts(t, c.bundle, ca, c.name, c.at); (err == nil) != c.ok {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestTheCAIsCreatedOnceAndNeverSilentlyReplaced(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := string(openCA(t, dir).Bundle())
	if again := string(openCA(t, dir).Bundle()); again != first {
		t.Error("another CA at the second start")
	}
	key := filepath.Join(dir, "keys", "tls-ca.pem")
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has mode %v, %v", info.Mode(), err)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.OpenCA(dir, caMade); err == nil || !strings.Contains(err.Error(), "put it back") {
		t.Errorf("without its key: %v", err)
	}
}

func TestTheCAChangesWithoutShuttingOutAClient(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := openCA(t, dir)
	before := ca.Bundle()
	want := func(what string, bundle []byte, in bool) {
		t.Helper()
		for _, ca := range []*trust.CA{ca, openCA(t, dir)} {
			if err := accepts(t, bundle, ca, "bus", caMade); (err == nil) != in {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if err := ca.Change(caMade); err != nil {
		t.Fatal(err)
	}
	both := ca.Bundle()
	want("a client that did not learn the new CA yet", before, true)
	want("a client that learned it", both, true)
	if ca.Change(caMade) == nil {
		t.Error("a second change began during a change")
	}
	if err := ca.Drop(); err != nil {
		t.Fatal(err)
	}
	want("a client that never learned it", before, false)
	want("a client that learned it, after the change", both, true)
	want("a new client", ca.Bundle(), true)
	if pins, err := trust.Pins(ca.Bundle()); err != nil || len(pins) != 1 {
		t.Errorf("%d CAs at the end, %v", len(pins), err)
	}
}

func TestABundleWithoutACertificateIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "ca.pem")
	for _, text := range []string{"", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := trust.ReadBundle(path)(); err == nil {
			t.Errorf("%q is a bundle", text)
		}
	}
}
