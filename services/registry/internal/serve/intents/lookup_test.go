package intents

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

// An intent that the ledger holds is not called unknown because the replica that answers does not have it yet.
func TestAReplicaThatLagsBehindHidesNoIntent(t *testing.T) {
	c := bustest.StartClusterWithLag(t)
	w := c.Dial(t, "registry").NewWriter()
	bustest.Go(t, w.Run)
	l := NewLookup(recordstest.New(t).Records, c.HoldBack(t, topology.Ledger, 50*time.Millisecond))
	missed := 0
	for deadline := time.Now().Add(time.Minute); missed < 3; {
		if time.Now().After(deadline) {
			t.Fatalf("%d plain reads missed an intent: the replica does not lag behind", missed)
		}
		id := ident.New()
		accepted := ledger.Free(ledger.Fact{
			ID: ident.New(), Noun: ledger.Intent, Key: id, At: time.Now(), Actor: "test", Source: "registry",
			Body: &intentv1.Accepted{Intent: &intentv1.Intent{}},
		})
		last, err := w.Append(t.Context(), accepted)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.anywhere(t.Context(), id); fault.Is(err, fault.NotFound) {
			missed++
		}
		if d, err := l.decision(t.Context(), id); err != nil || d.sequence != last ||
			d.record.GetState() != intentv1.State_STATE_ACCEPTED {
			t.Fatalf("intent %s, recorded at %d: %v, %v", id, last, d, err)
		}
	}
	if _, err := l.decision(t.Context(), ident.New()); !fault.Is(err, fault.NotFound) {
		t.Errorf("an intent that was never published: %v; want NotFound", err)
	}
}
