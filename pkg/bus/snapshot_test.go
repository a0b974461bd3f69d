package bus_test

import (
	"errors"
	"testing"
	"testing/iotest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// The bus tells of the end of a restore, but not of one that it gave up after a wait.
func TestARestoreThatFailsIsEndedAtTheBusToo(t *testing.T) {
	t.Parallel()
	b := bustest.StartEmpty(t)
	nc, err := nats.Connect("", nats.Timeout(time.Minute), nats.InProcessServer(b))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	ends, err := nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.RESTORE_COMPLETE." + topology.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	config, _ := topology.StreamNamed(1, topology.Ledger)
	cut := errors.New("the file was cut")
	streams := bus.NewStreams(b.Dial(t, topology.UserProvision))
	err = streams.Restore(t.Context(), config, jetstream.StreamState{}, iotest.ErrReader(cut))
	if !errors.Is(err, cut) {
		t.Errorf("error %v, want %v", err, cut)
	}
	if _, err := ends.NextMsg(time.Minute); err != nil {
		t.Errorf("the bus still waits for the snapshot: %v", err)
	}
}
