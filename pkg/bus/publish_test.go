package bus_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestASubjectThatIsFullIsAConflict(t *testing.T) {
	t.Parallel()
	c := bustest.Start(t).Dial(t, "test")
	d := bus.Durable{Subject: topology.BlobSubject([]byte("digest"), 0), Data: []byte("chunk")}
	if _, err := c.PublishDurable(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PublishDurable(t.Context(), d); !fault.Is(err, fault.Conflict) {
		t.Errorf("a second chunk on a subject: %v, want a conflict", err)
	}
}
