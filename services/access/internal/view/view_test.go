package view_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/server"
	"github.com/garrison-fleet/garrison/pkg/topology"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

type history struct {
	*view.View
	at       time.Time
	sequence uint64
}

func newHistory() *history { return &history{View: view.New(), at: noon} }

func (h *history) add(n ledger.Noun, key string, body proto.Message) {
	h.sequence++
	h.Apply(ledger.Fact{Noun: n, Key: key, Body: body, At: h.at, Sequence: h.sequence, Actor: "root"})
}

func in(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(noon.Add(d)) }

// refused returns the keys that each account refuses, in one line.
func (h *history) refused() string {
	of, _ := h.Revocations(h.at, 100)
	return fmt.Sprint(of[topology.AccountNodes].Keys, of[topology.AccountGuests].Keys, of[topology.AccountOps].Keys)
}

func (h *history) want(t *testing.T, step, want string) {
	t.Helper()
	if have := h.refused(); have != want {
		t.Errorf("%s: refused are %s, want %s", step, have, want)
	}
}

func TestTheKeysOfAServerFollowItsLife(t *testing.T) {
	h := newHistory()
	h.add(ledger.Server, "s", &serverv1.Invited{Name: "s", GuestKey: "G", ExpiresAt: in(time.Hour)})
	h.want(t, "invited", "[] [] []")
	h.add(ledger.Server, "s", &serverv1.Enrolled{PublicKey: "K", ExpiresAt: in(90 * 24 * time.Hour)})
	if _, until := h.Revocations(h.at, 100); !until.Equal(noon.Add(server.EnrolGrace)) {
		t.Errorf("the token is void at %v, want after its grace", until)
	}
	h.at = noon.Add(server.EnrolGrace)
	h.want(t, "after the grace", "[] [G] []")
	h.add(ledger.Server, "s", &serverv1.Quarantined{})
	h.want(t, "quarantined", "[K] [G] []")
	h.add(ledger.Server, "s", &serverv1.Released{})
	h.want(t, "released", "[] [G] []")
	h.at = noon.Add(3 * time.Hour)
	h.want(t, "the token has expired", "[] [] []")
	h.add(ledger.Server, "s", &serverv1.Dead{Lost: true, Forced: true})
	h.want(t, "given up", "[K] [] []")
	h.add(ledger.Server, "s", &serverv1.Forgotten{})
	h.want(t, "forgotten", "[K] [] []")
	h.at = noon.Add(91 * 24 * time.Hour)
	h.want(t, "the credentials have expired", "[] [] []")
}

// Two servers with one key are one attacker's: the registry admits no key that another server has.
func TestAKeyIsRefusedWhileAnyOwnerIsShutOut(t *testing.T) {
	h := newHistory()
	for _, id := range []string{"a", "b"} {
		h.add(ledger.Server, id, &serverv1.Invited{Name: id})
		h.add(ledger.Server, id, &serverv1.Enrolled{PublicKey: "K"})
	}
	h.want(t, "both are in", "[] [] []")
	h.add(ledger.Server, "b", &serverv1.Revoked{})
	h.want(t, "one is revoked", "[K] [] []")
}

func TestAKeyIsRefusedInTheAccountOfItsOwner(t *testing.T) {
	h := newHistory()
	h.add(ledger.User, "ann", &userv1.Created{PublicKey: "K", ExpiresAt: in(time.Hour)})
	h.add(ledger.Server, "s", &serverv1.Invited{Name: "s"})
	h.add(ledger.Server, "s", &serverv1.Enrolled{PublicKey: "K"})
	h.add(ledger.Server, "s", &serverv1.Quarantined{})
	h.want(t, "the server is quarantined", "[K] [] []")
}

func TestARenewalExtendsTheTimeInWhichAKeyIsRefused(t *testing.T) {
	h := newHistory()
	h.add(ledger.User, "ann", &userv1.Created{PublicKey: "K1", ExpiresAt: in(time.Hour)})
	h.add(ledger.User, "ann", &userv1.Renewed{PublicKey: "K1", ExpiresAt: in(10 * time.Hour)})
	h.add(ledger.User, "ann", &userv1.Revoked{})
	h.at = noon.Add(5 * time.Hour)
	h.want(t, "revoked", "[] [] [K1]")
	h.add(ledger.User, "ann", &userv1.Created{PublicKey: "K2", ExpiresAt: in(20 * time.Hour)})
	h.want(t, "created again", "[] [] [K1]")
}

func TestKeysThatLastLongestAreRefusedWhenThereAreTooMany(t *testing.T) {
	h := newHistory()
	for n := range 5 {
		name := fmt.Sprint("u", n)
		h.add(ledger.User, name, &userv1.Created{PublicKey: "K" + name, ExpiresAt: in(time.Duration(n+1) * time.Hour)})
		h.add(ledger.User, name, &userv1.Revoked{})
	}
	of, _ := h.Revocations(h.at, 3)
	ops := of[topology.AccountOps]
	if !slices.Equal(ops.Keys, []string{"Ku2", "Ku3", "Ku4"}) || ops.Left != 2 {
		t.Errorf("refused are %v and %d more are not, want the three that expire last, and 2", ops.Keys, ops.Left)
	}
}

func TestUsersAreListedInPages(t *testing.T) {
	h := newHistory()
	for n := range 25 {
		h.add(ledger.User, fmt.Sprintf("u%02d", n), &userv1.Created{PublicKey: fmt.Sprint(n), ExpiresAt: in(time.Hour)})
	}
	var names []string
	for p := (&apiv1.Page{Limit: 10}); ; {
		users, next, err := h.Users(p, noon.Add(2*time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range users {
			if names = append(names, u.Name); u.State != userv1.State_STATE_EXPIRED {
				t.Errorf("%s is %v, want expired", u.Name, u.State)
			}
		}
		if p.Cursor = next; next == "" {
			break
		}
	}
	if len(names) != 25 || !slices.IsSorted(names) {
		t.Errorf("listed %v", names)
	}
	if _, _, err := h.Users(&apiv1.Page{Cursor: "A B"}, noon); err == nil {
		t.Error("an invalid cursor was taken")
	}
}
