package bus

import (
	"testing"
	"time"

	"github.com/rs/zerolog"

	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// A batch that is tried again conflicts with itself when the first try was stored. Without
// a look at what is stored that must not be told as a conflict, which says that nothing is.
func TestAConflictIsNotBelievedWithoutALook(t *testing.T) {
	c, err := Dial(Options{URL: "nats://127.0.0.1:1", Persist: true, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	u, err := newUnit(t.Context(), []ledger.Draft{ledger.Free(ledger.Fact{
		Noun: ledger.Task, Key: "a", Body: &taskv1.Queued{}, ID: "one", At: time.Now(), Source: ledger.Dispatcher, Actor: "test",
	})})
	if err != nil {
		t.Fatal(err)
	}
	_, conflict := parseAck([]byte(`{"error":{"code":400,"err_code":10201,"description":"atomic publish batch contains duplicate message id"}}`))
	if _, err := c.NewWriter().readBack(t.Context(), u, conflict); !fault.Is(err, fault.Unavailable) {
		t.Errorf("%v (%v), want it unavailable", err, fault.KindOf(err))
	}
}
