package token_test

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/token"
	tokenv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/token/v1"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func fold(bodies ...proto.Message) (t *tokenv1.Token, fit bool) {
	for _, b := range bodies {
		t, fit = token.Apply(t, ledger.Fact{Noun: ledger.Token, Key: "rack-a", Body: b, Actor: "ann", At: noon})
	}
	return t, fit
}

func created(uses uint32) *tokenv1.Token {
	return &tokenv1.Token{Uses: uses, GuestKey: "G", ExpiresAt: timestamppb.New(noon.Add(time.Hour))}
}

func used(n int) *tokenv1.Used { return &tokenv1.Used{Uses: make([]*tokenv1.Use, n)} }

func Example() {
	t, _ := fold(created(2), used(2))
	fmt.Println(t.Name, t.Used, "of", t.Uses, token.StateAt(t, noon))
	// Output: rack-a 2 of 2 STATE_USED_UP
}

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := token.Life.Check(); err != nil {
		t.Error(err)
	}
}

func TestARevokedTokenIsNeitherUsedNorCreatedAgain(t *testing.T) {
	for _, after := range []proto.Message{used(1), created(5), &tokenv1.Revoked{}} {
		have, fit := fold(created(2), &tokenv1.Revoked{Reason: "stolen"}, after)
		if fit || have.Used != 0 || have.State != tokenv1.State_STATE_REVOKED || have.Reason != "stolen" {
			t.Errorf("%T after the revocation: fits %v, %v", after, fit, have)
		}
	}
}

func TestTheBusAdmitsTheKeyOfATokenThatHasUsesLeft(t *testing.T) {
	for name, c := range map[string]struct {
		facts []proto.Message
		later time.Duration
		state tokenv1.State
		guest string
	}{
		"new":           {[]proto.Message{created(2)}, 0, tokenv1.State_STATE_ACTIVE, "G"},
		"used once":     {[]proto.Message{created(2), used(1)}, 0, tokenv1.State_STATE_ACTIVE, "G"},
		"used up":       {[]proto.Message{created(2), used(2)}, 0, tokenv1.State_STATE_USED_UP, "G"},
		"after a while": {[]proto.Message{created(2), used(2)}, token.UseGrace, tokenv1.State_STATE_USED_UP, ""},
		"late":          {[]proto.Message{created(2)}, time.Hour, tokenv1.State_STATE_EXPIRED, "G"},
		"revoked":       {[]proto.Message{created(2), &tokenv1.Revoked{}}, 0, tokenv1.State_STATE_REVOKED, ""},
	} {
		t.Run(name, func(t *testing.T) {
			have, _ := fold(c.facts...)
			guest, until := token.Admitted(have, noon.Add(c.later))
			if guest != c.guest || token.StateAt(have, noon.Add(c.later)) != c.state {
				t.Errorf("key %q, %v", guest, token.StateAt(have, noon.Add(c.later)))
			}
			if next, _ := token.Admitted(have, until); !until.IsZero() && next == guest {
				t.Errorf("until %v, and after that too", until)
			}
		})
	}
}
