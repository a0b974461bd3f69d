package enrol

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func TestARefusedLoginIsExplained(t *testing.T) {
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	signer, err := trust.OpenSigner(a.SignerDir())
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Hour)
	guest, err := signer.Guest("01a1fc88-01b0-78a7-8be5-02349c182293", "main", until)
	if err != nil {
		t.Fatal(err)
	}
	token := trust.Token{ServerID: "01a1fc88-01b0-78a7-8be5-02349c182293", JWT: guest.JWT}
	denied := fault.New(fault.Denied, "authorization violation")
	for name, c := range map[string]struct {
		err  error
		at   time.Time
		code string
	}{
		"after the token expired":      {denied, until.Add(time.Minute), "EXPIRED_TOKEN"},
		"while the token is good":      {denied, until.Add(-time.Minute), "LOGIN_REFUSED"},
		"when it was not refused then": {errors.New("no route"), until.Add(time.Minute), ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := fault.RefusalOf(explainLogin(c.err, token, "nats://bus", c.at))
			if r.GetCode() != c.code {
				t.Errorf("code %q, want %q", r.GetCode(), c.code)
			}
			if c.code == "LOGIN_REFUSED" && !strings.Contains(r.GetMessage(), "was used up") {
				t.Errorf("%q does not say that the token may have been used", r.GetMessage())
			}
			clock := c.at.UTC().Format(time.RFC3339) + " by this machine's clock" // which may be what is wrong
			if c.code == "EXPIRED_TOKEN" && !strings.Contains(r.GetMessage(), clock) {
				t.Errorf("%q does not say what time it is there", r.GetMessage())
			}
		})
	}
}
