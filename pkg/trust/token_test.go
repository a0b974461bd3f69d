package trust_test

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/trust"
)

func TestATokenTellsUntilWhenItLetsIn(t *testing.T) {
	t.Parallel()
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s, err := trust.OpenSigner(a.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	until := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	guest, err := s.Guest("01a1fc88-01b0-78a7-8be5-02349c182293", "main", until)
	if err != nil {
		t.Fatal(err)
	}
	if got := (trust.Token{JWT: guest.JWT}).Expires(); !got.Equal(until) {
		t.Errorf("until %v, want %v", got, until)
	}
	if got := (trust.Token{JWT: "nonsense"}).Expires(); !got.IsZero() {
		t.Errorf("nonsense lets in until %v", got)
	}
}
