package removal

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/trust"
	"github.com/garrison-fleet/garrison/services/executor/internal/identity"
	"github.com/garrison-fleet/garrison/services/executor/internal/layout"
)

// A mark counts while the identity and the key beside it are those that it was made from, or
// have gone already. What cannot be read may be another's.
func TestAMarkCountsOnlyWhereNobodyElseMayBe(t *testing.T) {
	const dead, other = "0197b5a0-0000-7000-8000-000000000007", "0197b5a0-0000-7000-8000-000000000008"
	made, mark := marked(t, dead)
	const key, otherKey = `{"public":"UKEY","seed":"s"}`, `{"public":"UOTHER","seed":"s"}`
	is := func(change func(*identity.Identity)) string {
		who := made
		change(&who)
		data, err := json.Marshal(who)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	same := is(func(*identity.Identity) {})
	for name, c := range map[string]struct {
		identity, key string
		counts        bool
	}{
		"both gone":         {"", "", true},
		"the identity gone": {"", key, true},
		"the key gone":      {same, "", true},
		"the same":          {same, key, true},
		"the same, joined elsewhere": {
			is(func(i *identity.Identity) { i.URL, i.JWT = "nats://b", "renewed" }), key, true,
		},
		"another server's":           {is(func(i *identity.Identity) { i.ServerID = other }), key, false},
		"the same number at another": {is(func(i *identity.Identity) { i.Cell = "north" }), key, false},
		"a provisioned one's": {
			is(func(i *identity.Identity) { i.Ownership = identity.Provisioned }), key, false,
		},
		"one of an unknown ownership":    {is(func(i *identity.Identity) { i.Ownership = "" }), key, false},
		"another registry's":             {is(func(i *identity.Identity) { i.TombstoneKey = "AOTHER" }), key, false},
		"another key's":                  {is(func(i *identity.Identity) { i.PublicKey = "UOTHER" }), key, false},
		"another key beside it":          {same, otherKey, false},
		"another key, and no identity":   {"", otherKey, false},
		"a damaged key, and no identity": {"", "{", false},
		"damaged":                        {`{"server_id":"` + other, key, false},
		"without a server's id":          {`{}`, key, false},
	} {
		t.Run(name, func(t *testing.T) {
			root := layout.Root(t.TempDir())
			if err := os.Mkdir(root.Home(), 0o700); err != nil {
				t.Fatal(err)
			}
			for path, data := range map[string]string{root.Identity(): c.identity, root.Key(): c.key} {
				if data == "" {
					continue
				}
				if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := mark.write(root); err != nil {
				t.Fatal(err)
			}
			if server, err := Marked(root); (server == dead) != c.counts || (err == nil) != c.counts {
				t.Errorf("got %q, %v", server, err)
			}
		})
	}
}

// marked returns an identity of a server, and the mark that its removal began.
func marked(t *testing.T, server string) (identity.Identity, Mark) {
	t.Helper()
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := trust.OpenSigner(a.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	proof, err := s.Tombstone(server, "main", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	made := identity.Identity{
		ServerID:     server,
		Cell:         "main",
		URL:          "nats://x",
		JWT:          "jwt",
		PublicKey:    "UKEY",
		Ownership:    identity.Manual,
		TombstoneKey: s.TombstoneKey(),
	}
	mark, err := NewMark(made, proof)
	if err != nil {
		t.Fatal(err)
	}
	return made, mark
}
