package trust_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func open(t *testing.T, dir string) *trust.Authority {
	t.Helper()
	a, err := trust.OpenAuthority(dir)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// files returns the content of every file below dir.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		out[path] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAnAuthorityThatIsAsItShouldBeIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	before := files(t, dir)
	open(t, dir)
	for path, data := range files(t, dir) {
		if before[path] != data {
			t.Errorf("%s was written again", path)
		}
	}
}

// What users may do changes with the software. A directory made by an older one must
// not keep the old permissions, and no key may change with them.
func TestAnAuthorityOfAnOlderVersionIsBroughtUpToDate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir)
	want := a.Public
	core, ops := a.Names[topology.AccountCore], a.Names[topology.AccountOps]
	age(t, dir, ops, func(c *jwt.AccountClaims) { c.Imports = c.Imports[:1] })
	age(t, dir, core, func(c *jwt.AccountClaims) { c.Exports = c.Exports[:1] })
	ageService(t, dir)

	b := open(t, dir)

	for name, public := range want.Names {
		if b.Names[name] != public {
			t.Errorf("account %s has another key", name)
		}
		if have, before := claims(t, b.Accounts[public]), claims(t, want.Accounts[public]); len(have.Imports) != len(
			before.Imports) ||
			len(have.Exports) != len(before.Exports) ||
			len(have.SigningKeys) != len(before.SigningKeys) {
			t.Errorf("account %s: %d imports, %d exports, %d signing keys; want %d, %d, %d", name, len(have.Imports),
				len(have.Exports), len(have.SigningKeys), len(before.Imports), len(before.Exports),
				len(before.SigningKeys))
		}
		for key := range claims(t, want.Accounts[public]).SigningKeys {
			if _, ok := claims(t, b.Accounts[public]).SigningKeys[key]; !ok {
				t.Errorf("account %s lost the signing key %s, and with it everybody whom it signed", name, key)
			}
		}
	}
	token, _, err := trust.ReadCredentials(b.ServiceCredentials(topology.UserRegistry))()
	if err != nil {
		t.Fatal(err)
	}
	u, err := jwt.DecodeUserClaims(token)
	if err != nil || len(u.Pub.Allow) != len(topology.ServicePermissions(topology.UserRegistry).Publish) {
		t.Errorf("the registry may publish to %v (%v)", u.Pub.Allow, err)
	}
}

func claims(t *testing.T, token string) *jwt.AccountClaims {
	t.Helper()
	c, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// age makes an account as an older version left it.
func age(t *testing.T, dir, public string, change func(*jwt.AccountClaims)) {
	t.Helper()
	path := filepath.Join(dir, "authority.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var p trust.Public
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	c := claims(t, p.Accounts[public])
	change(c)
	if p.Accounts[public], err = c.Encode(bustest.Key(t, dir, "operator")); err != nil {
		t.Fatal(err)
	}
	if data, err = json.Marshal(p); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// ageService makes the registry's credentials as an older version left them.
func ageService(t *testing.T, dir string) {
	t.Helper()
	path := filepath.Join(dir, "services", topology.UserRegistry+".creds")
	token, seed, err := trust.ReadCredentials(path)()
	if err != nil {
		t.Fatal(err)
	}
	u, err := jwt.DecodeUserClaims(token)
	if err != nil {
		t.Fatal(err)
	}
	u.Pub.Allow = u.Pub.Allow[:1]
	if token, err = u.Encode(bustest.Key(t, dir, topology.AccountCore)); err != nil {
		t.Fatal(err)
	}
	if err := trust.WriteCredentials(path, token, seed); err != nil {
		t.Fatal(err)
	}
}

// The name is a token of every subject that a person may use, so one with a wildcard
// would be everybody.
func TestAPersonHasANameThatIsOneToken(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir())
	for _, name := range []string{"", "*", ">", "a.b", "alice.*", "Alice", "a b"} {
		if _, err := a.Person(name, topology.Viewer, "nats://x", time.Time{}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v, want invalid", name, err)
		}
	}
	if _, err := a.Person("alice", topology.Viewer, "nats://x", time.Time{}); err != nil {
		t.Error(err)
	}
}
