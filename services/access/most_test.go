package access_test

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"

	"github.com/garrison-fleet/garrison/pkg/bustest"
)

// The JWT of an account with as many revoked keys as there may be fits into one message of the bus.
func TestTheMostRevokedKeysReachTheBus(t *testing.T) {
	t.Parallel()
	b := bustest.StartGuarded(t)
	w := &world{T: t, bus: b}
	system := bus.NewSystem(b.Service(t, topology.UserAccessSystem))
	issuer, err := trust.OpenIssuer(b.Dir())
	if err != nil {
		t.Fatal(err)
	}
	l := login{name: "web"}
	l.jwt, l.seed = b.ServerUser(t, l.name, "main")
	c := w.connect(l)
	keys := []string{publicOf(l.seed)}
	for len(keys) < trust.MaxRevoked {
		keys = append(keys, newKey(t))
	}
	begun := time.Now()
	token, err := issuer.Revoke(topology.AccountNodes, keys)
	if err != nil {
		t.Fatal(err)
	}
	signed := time.Since(begun)
	if err := system.UpdateAccount(t.Context(), token, 1); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d keys, %d KiB: signed in %v, pushed in %v", len(keys), len(token)>>10, signed, time.Since(begun)-signed)
	w.shutOut(c, l)
	if have, err := system.AccountJWTs(t.Context(), issuer.AccountKey(topology.AccountNodes), 1); err != nil ||
		!trust.SameAccount(have[0], token) {
		t.Errorf("the bus has another account (%v)", err)
	}
}
