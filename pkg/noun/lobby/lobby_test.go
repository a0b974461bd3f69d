package lobby_test

import (
	"fmt"
	"regexp"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/lobby"
	lobbyv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/lobby/v1"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func Example() {
	rejected := &lobbyv1.Rejection{Reason: "not ours", Until: timestamppb.New(noon.Add(time.Hour))}
	r, _ := lobby.Apply(nil, ledger.Fact{Noun: ledger.Lobby, Key: "UA", Body: rejected, Actor: "ann"})
	fmt.Println(r.RejectedBy, lobby.Holds(r, noon), lobby.Holds(r, noon.Add(time.Hour)))
	// Output: ann true false
}

func TestEveryStateHasARowInTheTable(t *testing.T) {
	if err := lobby.Life.Check(); err != nil {
		t.Error(err)
	}
}

func TestAFingerprintIsShortAndOfOneKey(t *testing.T) {
	one, other := lobby.Fingerprint("UA"), lobby.Fingerprint("UB")
	if !regexp.MustCompile(`^([A-Z2-7]{4}-){4}[A-Z2-7]{4}$`).MatchString(one) || one == other {
		t.Errorf("%s and %s", one, other)
	}
	if one != lobby.Fingerprint("UA") {
		t.Error("it changes")
	}
}
