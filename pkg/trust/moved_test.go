package trust_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// A service that had its user in CORE gets one in its own account, and CORE refuses the old one,
// whose JWT has no end.
func TestAServiceThatMovesToItsOwnAccountIsRevokedInCore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir)
	seed, err := os.ReadFile(filepath.Join(dir, "keys", topology.AccountCore+".seed"))
	if err != nil {
		t.Fatal(err)
	}
	core, err := nkeys.FromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	public, userSeed, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	old := jwt.NewUserClaims(public)
	old.Name = topology.UserRegistry
	token, err := old.Encode(core)
	if err != nil {
		t.Fatal(err)
	}
	file := a.ServiceCredentials(topology.UserRegistry)
	if err := trust.WriteCredentials(file, token, userSeed); err != nil {
		t.Fatal(err)
	}
	for range 2 { // it stays revoked when the authority is opened again
		b := open(t, dir)
		now, _, err := trust.ReadCredentials(file)()
		if err != nil {
			t.Fatal(err)
		}
		u, err := jwt.DecodeUserClaims(now)
		if err != nil || u.Subject != public || u.Issuer != b.Names[topology.AccountRegistry] {
			t.Errorf("the registry is %s of account %s (%v), want %s of %s", u.Subject, u.Issuer, err, public,
				b.Names[topology.AccountRegistry])
		}
		old, err := jwt.DecodeUserClaims(token)
		if err != nil {
			t.Fatal(err)
		}
		if !claims(t, b.Accounts[b.Names[topology.AccountCore]]).IsClaimRevoked(old) {
			t.Error("CORE still admits the old user")
		}
	}
}
