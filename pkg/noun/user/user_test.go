package user

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func after(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(d)) }

func apply(t *testing.T, u *userv1.User, at time.Duration, body proto.Message, want bool) *userv1.User {
	t.Helper()
	f := ledger.Fact{Noun: ledger.User, Key: "ann", Body: body, At: noon.Add(at), Actor: "root"}
	next, fit := Apply(u, f)
	if fit != want {
		t.Fatalf("%s fits: %v, want %v", f.Name(), fit, want)
	}
	return next
}

func created(key string, d time.Duration) *userv1.Created {
	return &userv1.Created{Role: userv1.Role_ROLE_ADMIN, PublicKey: key, ExpiresAt: after(d)}
}

func TestTheTableIsComplete(t *testing.T) {
	if err := Life.Check(); err != nil {
		t.Error(err)
	}
	for _, k := range ledger.Kinds {
		if _, ok := Life.Next(Active, k.Name); k.Noun == ledger.User && !ok {
			t.Errorf("no state takes the fact %s", k.Name)
		}
	}
}

func TestARenewalKeepsTheKeyAndMovesItsExpiry(t *testing.T) {
	u := apply(t, nil, 0, created("K1", 90*time.Hour), true)
	u = apply(t, u, 60*time.Hour, &userv1.Renewed{PublicKey: "K1", ExpiresAt: after(150 * time.Hour)}, true)
	if len(u.Keys) != 1 || u.Keys[0].ValidForS != 90*3600 || !u.RenewedAt.AsTime().Equal(noon.Add(60*time.Hour)) {
		t.Errorf("after a renewal: %v", u)
	}
	apply(t, u, 61*time.Hour, &userv1.Renewed{PublicKey: "K2", ExpiresAt: after(200 * time.Hour)}, false)
	if until, ok := ValidUntil(u); !ok || !until.Equal(noon.Add(150*time.Hour)) {
		t.Errorf("valid until %v, %v", until, ok)
	}
}

func TestARevocationCoversEveryKey(t *testing.T) {
	u := apply(t, nil, 0, created("K1", 2*time.Hour), true)
	u = apply(t, u, time.Minute, created("K2", 2*time.Hour), true)
	u = apply(t, u, time.Hour, &userv1.Revoked{Reason: "left"}, true)
	if len(u.Keys) != 0 || u.State != userv1.State_STATE_REVOKED || u.RevokedBy != "root" || u.Reason != "left" {
		t.Errorf("after a revocation: %v", u)
	}
	apply(t, u, time.Hour, &userv1.Renewed{PublicKey: "K1", ExpiresAt: after(9 * time.Hour)}, false)
	u = apply(t, u, time.Hour, created("K3", 9*time.Hour), true)
	if u.State != userv1.State_STATE_ACTIVE || len(u.Keys) != 1 || u.Reason != "" {
		t.Errorf("created again: %v", u)
	}
}

func TestExpiredKeysLeaveTheRecord(t *testing.T) {
	u := apply(t, nil, 0, created("K1", time.Hour), true)
	u = apply(t, u, 2*time.Hour, created("K2", 9*time.Hour), true)
	if len(u.Keys) != 1 || u.Keys[0].PublicKey != "K2" {
		t.Errorf("keys: %v, want K2 alone", u.Keys)
	}
	apply(t, u, 2*time.Hour, created("K2", 9*time.Hour), false)
}
