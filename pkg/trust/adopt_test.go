package trust_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// accessOf copies what access needs of an authority to another directory.
func accessOf(t *testing.T, dir string) (string, *trust.Issuer) {
	t.Helper()
	to := t.TempDir()
	if err := os.Mkdir(filepath.Join(to, "keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"authority.json", "keys/operator.seed"} {
		if err := os.WriteFile(filepath.Join(to, name), read(t, filepath.Join(dir, name)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issuer, err := trust.OpenIssuer(to)
	if err != nil {
		t.Fatal(err)
	}
	return to, issuer
}

func refused(t *testing.T, dir string) int {
	t.Helper()
	a, err := trust.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := jwt.DecodeAccountClaims(a.Accounts[a.Names[topology.AccountNodes]])
	if err != nil {
		t.Fatal(err)
	}
	return len(claims.Revocations)
}

func TestAnAuthorityAdoptsTheKeysThatAnotherCopyRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if got := refused(t, dir); got != 0 {
		t.Fatalf("a new authority refuses %d keys", got)
	}
	copied, issuer := accessOf(t, dir)
	key, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	for _, keys := range [][]string{{key}, nil} { // a key that is let in again is adopted too
		if _, err := issuer.Revoke(topology.AccountNodes, keys); err != nil {
			t.Fatal(err)
		}
		if err := trust.AdoptRevocations(dir, copied); err != nil {
			t.Fatal(err)
		}
		if got := refused(t, dir); got != len(keys) {
			t.Errorf("%d keys are refused, want %d", got, len(keys))
		}
	}
}

// Only the holder of the operator key can change an account.
func TestAnAuthorityAdoptsNothingThatAnotherKeySigned(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	refused(t, dir)
	refused(t, other)
	a, err := trust.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	token := a.Accounts[a.Names[topology.AccountNodes]]
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	claims.Revoke("*")
	stranger, err := nkeys.FromSeed(read(t, filepath.Join(other, "keys", "operator.seed")))
	if err != nil {
		t.Fatal(err)
	}
	forged, err := claims.Encode(stranger)
	if err != nil {
		t.Fatal(err)
	}
	copied, _ := accessOf(t, dir)
	own := string(read(t, filepath.Join(dir, "authority.json")))
	text := strings.Replace(own, token, forged, 1)
	if err := os.WriteFile(filepath.Join(copied, "authority.json"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := trust.AdoptRevocations(dir, copied); err != nil {
		t.Fatal(err)
	}
	if text == own || string(read(t, filepath.Join(dir, "authority.json"))) != own {
		t.Error("adopted an account that another operator signed")
	}
}

func TestADirectoryWithoutAnAuthorityAdoptsAndGivesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	refused(t, dir)
	own := string(read(t, filepath.Join(dir, "authority.json")))
	empty := t.TempDir()
	for _, c := range [][2]string{{dir, empty}, {empty, dir}, {dir, filepath.Join(empty, "missing")}} {
		if err := trust.AdoptRevocations(c[0], c[1]); err != nil {
			t.Error(err)
		}
	}
	if got := string(read(t, filepath.Join(dir, "authority.json"))); got != own {
		t.Error("the authority changed")
	}
	if _, err := os.Stat(filepath.Join(empty, "authority.json")); err == nil {
		t.Error("an authority was made")
	}
}
