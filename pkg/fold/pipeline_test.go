package fold

import (
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
)

// A replay that is cut, as by a stall of the bus, has read what waits to be applied. The next one goes on behind that.
func TestWhatWasReadBeforeAReplayWasCutIsApplied(t *testing.T) {
	t.Parallel()
	var applied []uint64
	first, blocks := make(chan struct{}), make(chan struct{})
	p := newPipeline(t.Context(), func() {}, nil, func(c chunk) error {
		if applied = append(applied, c.last); c.last == 1 {
			close(first)
			<-blocks
		}
		return nil
	})
	for n := range uint64(3) {
		if err := p.put([]bus.Message{{Subject: "x", Sequence: n + 1}}); err != nil {
			t.Fatal(err)
		}
	}
	<-first
	close(blocks)
	if err := p.drain(); err != nil || !slices.Equal(applied, []uint64{1, 2, 3}) {
		t.Errorf("applied %v, %v; want all", applied, err)
	}
}
