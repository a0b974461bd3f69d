package view_test

import (
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"
)

func TestARevocationIsLostWhileTheLedgerLetsItsKeyIn(t *testing.T) {
	h := newHistory()
	h.add(ledger.User, "ann", &userv1.Created{PublicKey: "UANN", Role: userv1.Role_ROLE_ADMIN})
	refused := map[string][]string{topology.AccountOps: {"UANN", "UNKNOWN"}}
	if have := h.Lost(refused, h.at); !slices.Equal(have, []string{"user ann"}) {
		t.Errorf("lost %v; want the revocation of ann", have)
	}
	h.add(ledger.User, "ann", &userv1.Revoked{})
	if have := h.Lost(refused, h.at); len(have) > 0 {
		t.Errorf("lost %v after ann was revoked again", have)
	}
}
