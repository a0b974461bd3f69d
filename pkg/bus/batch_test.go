package bus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A batch whose first messages went to the bus before it was started anew is refused as
// incomplete, which is what the writer takes for a reason to send all of it again.
func TestABusThatWasStartedAnewRefusesTheRestOfABatch(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	back := make(chan struct{})
	nc, err := nats.Connect("", nats.Timeout(time.Minute),
		nats.InProcessServer(b), nats.ReconnectWait(10*time.Millisecond),
		nats.MaxReconnects(-1), nats.ReconnectHandler(func(*nats.Conn) { close(back) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	part := func(key, n string) *nats.Msg {
		header, data, err := ledger.Encode(queued(key))
		if err != nil {
			t.Fatal(err)
		}
		header["Nats-Batch-Id"], header["Nats-Batch-Sequence"] = []string{"one"}, []string{n}
		return &nats.Msg{Subject: queuedSubject(key), Header: header, Data: data}
	}
	if err := nc.PublishMsg(part("a", "1")); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	b.Restart(t, func(string) {})
	last := part("b", "2")
	last.Header["Nats-Batch-Commit"] = []string{"1"}
	<-back
	answer, err := nc.RequestMsg(last, 5*time.Second)
	if err != nil || !strings.Contains(string(answer.Data), `"err_code":10176`) {
		t.Errorf("the end of the batch: %s, %v", answer.Data, err)
	}
}
