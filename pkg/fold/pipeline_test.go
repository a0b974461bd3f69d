package fold

import (
	"slices"
	"testing"
	"unsafe"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
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

// The view keeps the keys of facts that it cannot read, and a subject is a part of all headers of its message.
func TestAnUnreadableFactKeepsNoPartOfItsMessage(t *testing.T) {
	t.Parallel()
	subject := ledger.FactSubject(ledger.Task, "t1", "dreamt")
	block := subject + " and headers"
	c := decode([]bus.Message{{Subject: block[:len(subject)], Sequence: 1}}, nil)
	if len(c.facts) != 1 || c.facts[0].Body != nil || c.facts[0].Key != "t1" {
		t.Fatalf("decoded %+v", c.facts)
	}
	begin := uintptr(unsafe.Pointer(unsafe.StringData(block)))
	if at := uintptr(unsafe.Pointer(unsafe.StringData(c.facts[0].Key))); at >= begin && at < begin+uintptr(len(block)) {
		t.Error("the key is a part of the message")
	}
}
