package identity

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

const serverID = "01a1fc88-01b0-78a7-8be5-02349c182293"

func open(t *testing.T) (layout.Root, *trust.Signer) {
	t.Helper()
	root, err := layout.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.OpenSigner(a.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	return root, signer
}

func sign(t *testing.T, s *trust.Signer, key, id string) string {
	t.Helper()
	jwt, err := s.Server(key, id, "main", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return jwt
}

// keep writes an identity of a key.
func keep(t *testing.T, root layout.Root, public, jwt string) {
	t.Helper()
	is := Identity{ServerID: serverID, Cell: "main", URL: "nats://bus", PublicKey: public, JWT: jwt}
	if err := is.Write(root); err != nil {
		t.Fatal(err)
	}
}

func TestARenewalTakesOnlyCredentialsOfItsOwnKeyAndServer(t *testing.T) {
	root, signer := open(t)
	key, err := OpenKey(root)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, root, key.Public, sign(t, signer, key.Public, serverID))
	other, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key, jwt string
		kind     fault.Kind
	}{
		"of another key": {key.Public, sign(t, signer, other, serverID), fault.Invalid},
		"of another server": {
			key.Public, sign(t, signer, key.Public, "01a1fc88-01b0-78a7-8be5-000000000000"), fault.Invalid,
		},
		"of nothing": {key.Public, "nonsense", fault.Invalid},
		"after another join": {
			other, sign(t, signer, other, serverID), fault.Conflict,
		},
	} {
		if err := Renew(root, c.key, c.jwt, ""); !fault.Is(err, c.kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
	next := sign(t, signer, key.Public, serverID)
	if err := Renew(root, key.Public, next, ""); err != nil {
		t.Fatal(err)
	}
	if is, err := Read(root); err != nil || is.JWT != next {
		t.Errorf("after the renewal: %v, %v", is, err)
	}
}

// A server that did not learn the next CA of the bus is shut out at the end of the change.
func TestARenewalReplacesTheCAOfTheBus(t *testing.T) {
	root, signer := open(t)
	key, err := OpenKey(root)
	if err != nil {
		t.Fatal(err)
	}
	jwt := sign(t, signer, key.Public, serverID)
	keep(t, root, key.Public, jwt)
	ca, err := trust.OpenCA(t.TempDir(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, sent := range []string{string(ca.Bundle()), "", "nonsense"} {
		if sent != "" && sent != "nonsense" {
			want = sent
		}
		if err := Renew(root, key.Public, jwt, sent); (err == nil) != (sent != "nonsense") {
			t.Errorf("%q: %v", sent, err)
		}
		is, err := Read(root)
		if err != nil {
			t.Fatal(err)
		}
		if known, err := is.TLS(root).CA(); err != nil || string(known) != want {
			t.Errorf("after %q the CA is %q, %v; want %q", sent, known, err, want)
		}
	}
}

func TestAKeyAndItsIdentityAreNeverOfTwoJoins(t *testing.T) {
	root, signer := open(t)
	first, err := OpenKey(root)
	if err != nil {
		t.Fatal(err)
	}
	keep(t, root, first.Public, sign(t, signer, first.Public, serverID))
	next, err := NextKey(root)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := JoinKey(root, true); err != nil || again.Public != next.Public {
		t.Errorf("a repeated join has the key %s, %v; want %s", again.Public, err, next.Public)
	}
	seed := func() string {
		_, seed, err := Credentials(root)()
		if err != nil {
			t.Fatal(err)
		}
		return string(seed)
	}
	if seed() != first.Seed {
		t.Error("the next key is used before the registry admitted it")
	}
	keep(t, root, next.Public, sign(t, signer, next.Public, serverID)) // and then it crashes
	if seed() != next.Seed {
		t.Error("the key before is used with the identity of the next one")
	}
	if err := CheckKey(root); err != nil {
		t.Error(err)
	}
}

func TestALaterTokenJoinsAgain(t *testing.T) {
	_, signer := open(t)
	key, _, err := trust.NewUserKey()
	if err != nil {
		t.Fatal(err)
	}
	guest, err := signer.Guest(serverID, "main", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	used, other := trust.Token{Secret: "used", JWT: guest.JWT}, trust.Token{Secret: "other", JWT: guest.JWT}
	is := Identity{JWT: sign(t, signer, key, serverID), Token: TokenSum(used)}
	if is.Supersedes(used) || !is.Supersedes(other) {
		t.Error("the token with which it joined is taken, or another one is not")
	}
	if is.Supersedes(trust.Token{Secret: "damaged", JWT: "nonsense"}) {
		t.Error("a token that cannot be read is taken")
	}
}
