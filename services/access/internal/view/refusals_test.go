package view_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/services/access/internal/view"
)

// What is refused is kept from look to look; a view that folds the same facts and looks for the first time agrees.
func TestWhatIsRefusedFollowsFromTheFactsAndTheTimeAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		var facts []ledger.Fact
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			h.at = h.at.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes")) * time.Minute)
			n, key, body := anyFact(t, h.at)
			h.sequence++
			f := ledger.Fact{Noun: n, Key: key, Body: body, At: h.at, Sequence: h.sequence, Actor: "root"}
			facts = append(facts, f)
			h.Apply(f)
			if rapid.Bool().Draw(t, "looks") {
				ahead := time.Duration(rapid.IntRange(-60, 180).Draw(t, "ahead")) * time.Minute
				agrees(t, h.View, facts, h.at.Add(ahead), rapid.IntRange(1, 4).Draw(t, "limit"))
			}
		}
		h.Loaded()
		agrees(t, h.View, facts, h.at, 100)
	})
}

func agrees(t *rapid.T, live *view.View, facts []ledger.Fact, at time.Time, limit int) {
	fresh := view.New()
	for _, f := range facts {
		fresh.Apply(f)
	}
	have, until := live.Revocations(at, limit)
	want, wantUntil := fresh.Revocations(at, limit)
	if fmt.Sprint(have) != fmt.Sprint(want) || !until.Equal(wantUntil) {
		t.Fatalf("refused at %v are %v until %v, want %v until %v", at, have, until, want, wantUntil)
	}
}

// anyFact draws a fact about one of three servers, a pooled token or a user, which share a few keys.
func anyFact(t *rapid.T, at time.Time) (ledger.Noun, string, proto.Message) {
	key := rapid.SampledFrom([]string{"K1", "K2", "K3"}).Draw(t, "key")
	expires := in(at.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "hours")) * time.Hour).Sub(noon))
	if rapid.IntRange(0, 3).Draw(t, "noun") == 0 {
		return rapid.SampledFrom([]func() (ledger.Noun, string, proto.Message){
			func() (ledger.Noun, string, proto.Message) {
				return ledger.User, "ann", &userv1.Created{PublicKey: key, ExpiresAt: expires}
			},
			func() (ledger.Noun, string, proto.Message) {
				return ledger.User, "ann", &userv1.Renewed{PublicKey: key, ExpiresAt: expires}
			},
			func() (ledger.Noun, string, proto.Message) { return ledger.User, "ann", &userv1.Revoked{} },
			func() (ledger.Noun, string, proto.Message) {
				return ledger.Token, "pool", &tokenv1.Token{GuestKey: key, Uses: 2, ExpiresAt: expires}
			},
			func() (ledger.Noun, string, proto.Message) { return ledger.Token, "pool", &tokenv1.Used{} },
		}).Draw(t, "fact")()
	}
	body := rapid.SampledFrom([]proto.Message{
		&serverv1.Invited{Name: "s", GuestKey: key, ExpiresAt: expires},
		&serverv1.Reinvited{GuestKey: key, ExpiresAt: expires},
		&serverv1.Enrolled{PublicKey: key, ExpiresAt: expires},
		&serverv1.CredentialsRenewed{PublicKey: key, ExpiresAt: expires},
		&serverv1.Quarantined{}, &serverv1.Released{}, &serverv1.Revoked{},
		&serverv1.Dead{Lost: true, Forced: true}, &serverv1.Forgotten{},
	}).Draw(t, "fact")
	return ledger.Server, rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "server"), proto.Clone(body)
}
