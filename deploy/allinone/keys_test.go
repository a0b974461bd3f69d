package allinone

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/trust"
)

func TestTheFirstOperatorIsNeverLockedOut(t *testing.T) {
	t.Parallel()
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, now := filepath.Join(t.TempDir(), "operator.json"), time.Now()
	look := func(step string, at time.Time, want bool) trust.Context {
		t.Helper()
		c, why, err := operatorContext(a, file, at)
		if err != nil || (why != "") != want {
			t.Fatalf("%s: a new context is %q (%v), want one: %v", step, why, err, want)
		}
		if why != "" {
			c.URL = "nats://here"
			if err := c.Write(file); err != nil {
				t.Fatal(err)
			}
		}
		return c
	}
	first := look("without one", now, true)
	if _, until := trust.Times(first.JWT); until.Before(now.Add(trust.PersonValidFor - time.Minute)) {
		t.Errorf("it expires at %v, want in 90 days", until)
	}
	if c := look("with a valid one", now, false); c.JWT != first.JWT {
		t.Error("a valid context is not kept")
	}
	if c := look("with an expired one", now.Add(91*24*time.Hour), true); c.PublicKey() == first.PublicKey() {
		t.Error("an expired key was signed again")
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	look("with a damaged one", now.Add(91*24*time.Hour), true)
	issuer, err := trust.OpenIssuer(filepath.Dir(a.SignerDir()))
	if err != nil {
		t.Fatal(err)
	}
	if people, err := issuer.People(); err != nil || len(people) != 3 {
		t.Errorf("%d are recorded for access (%v), want all 3", len(people), err)
	}
}
