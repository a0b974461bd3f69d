package fold

import (
	"testing"
	"unsafe"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

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
