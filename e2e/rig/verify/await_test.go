package verify_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/e2e/rig/verify"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// An intent that is stored counts although its publisher got no acknowledgement, and one
// that was acknowledged counts although it is not stored.
func TestAnIntentThatIsNotDecidedIsNoticed(t *testing.T) {
	b := bustest.Start(t)
	c := b.Dial(t, "registry")
	w := b.Writer(t, c)
	stored, acknowledged := ident.New(), ident.New()
	subject := topology.IntentSubject(topology.VerbRefresh, "alice", stored)
	if _, err := c.PublishDurable(t.Context(), bus.Durable{Subject: subject}); err != nil {
		t.Fatal(err)
	}
	decide := func(id string) {
		t.Helper()
		f := ledger.Fact{
			Noun: ledger.Intent, Key: id, Body: &intentv1.Accepted{}, ID: ident.New(), At: time.Now(),
			Source: ledger.Registry, Actor: "alice",
		}
		if _, err := w.Append(t.Context(), ledger.Free(f)); err != nil {
			t.Fatal(err)
		}
	}
	broken := func(within time.Duration) string {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		var said []string
		for _, err := range verify.Await(ctx, c, []string{acknowledged}) {
			said = append(said, err.Error())
		}
		return strings.Join(said, "\n")
	}
	if said := broken(time.Second); !strings.Contains(said, stored) || !strings.Contains(said, acknowledged) {
		t.Errorf("neither is decided; it says: %s", said)
	}
	decide(stored)
	if said := broken(time.Second); strings.Contains(said, stored) || !strings.Contains(said, acknowledged) {
		t.Errorf("one is decided; it says: %s", said)
	}
	decide(acknowledged)
	if said := broken(20 * time.Second); said != "" {
		t.Errorf("both are decided; it says: %s", said)
	}
	decide(acknowledged)
	if said := broken(time.Second); !strings.Contains(said, "decided again") {
		t.Errorf("one is decided twice; it says: %s", said)
	}
}
