package bus

import (
	"fmt"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/fault"
)

// pubRefusal returns the stream's answer that refuses a publish.
func pubRefusal(status, code int, description string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"err_code":%d,"description":%q}}`, status, code, description)
}

// The kind of the error decides what the caller does next: a publish that lost against another writer is a
// conflict, and a bus that cannot store anything now is tried again.
func TestARefusedPublishHasTheKindOfItsCause(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]fault.Kind{
		pubRefusal(400, 10071, "wrong last sequence: 4"):                             fault.Conflict,
		pubRefusal(400, 10164, "wrong last sequence"):                                fault.Unavailable,
		pubRefusal(409, 10158, "duplicate message id is in process"):                 fault.Unavailable,
		pubRefusal(400, 10201, "atomic publish batch contains duplicate message id"): fault.Conflict,
		pubRefusal(503, 10077, "maximum messages per subject exceeded"):              fault.Conflict,
		pubRefusal(503, 10077, "maximum bytes exceeded"):                             fault.Unavailable,
		pubRefusal(503, 10077, "write /data/1.blk: no space left on device"):         fault.Unavailable,
		pubRefusal(500, 10047, "insufficient storage resources available"):           fault.Unavailable,
		pubRefusal(503, 10023, "insufficient resources"):                             fault.Unavailable,
		pubRefusal(400, 10054, "message size exceeds maximum allowed"):               fault.Invalid,
		pubRefusal(400, 10200, "atomic publish batch commit is invalid"):             fault.Internal,
		pubRefusal(400, 10176, "atomic publish batch is incomplete"):                 fault.Unavailable,
		`not an answer`: fault.Unavailable,
	} {
		if _, err := parseAck([]byte(answer)); !fault.Is(err, want) {
			t.Errorf("%s: %v (%v), want %v", answer, err, fault.KindOf(err), want)
		}
	}
	if a, err := parseAck([]byte(`{"stream":"LEDGER","seq":7}`)); err != nil || a.Sequence != 7 {
		t.Errorf("an ack: %v, %v", a, err)
	}
}

// A bus that has no room says so in the end, and one that cannot store for another reason is asked on.
func TestABusWithoutRoomIsARefusal(t *testing.T) {
	t.Parallel()
	long, now := time.Now().Add(-fullFor), time.Now()
	for answer, is := range map[string]bool{
		pubRefusal(503, 10077, "maximum bytes exceeded"):                     true,
		pubRefusal(503, 10077, "write /data/1.blk: no space left on device"): true,
		pubRefusal(500, 10047, "insufficient storage resources available"):   true,
		pubRefusal(503, 10077, "maximum messages per subject exceeded"):      false,
		pubRefusal(503, 10023, "insufficient resources"):                     false,
	} {
		_, err := parseAck([]byte(answer))
		if got := full(err, long); (fault.RefusalOf(got).GetCode() == code.NoSpace) != is || full(err, now) != nil {
			t.Errorf("%s: after %s %v, at once %v", answer, fullFor, got, full(err, now))
		}
	}
}
