package bus

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

// The kind decides what becomes of what was to be stored: only what lost against
// another writer is a conflict, and a bus that cannot store anything now is tried again.
func TestARefusedPublishHasTheKindOfItsCause(t *testing.T) {
	for answer, want := range map[string]fault.Kind{
		`{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: 4"}}`:                             fault.Conflict,
		`{"error":{"code":400,"err_code":10164,"description":"wrong last sequence"}}`:                                fault.Unavailable,
		`{"error":{"code":409,"err_code":10158,"description":"duplicate message id is in process"}}`:                 fault.Unavailable,
		`{"error":{"code":400,"err_code":10201,"description":"atomic publish batch contains duplicate message id"}}`: fault.Conflict,
		`{"error":{"code":503,"err_code":10077,"description":"maximum messages per subject exceeded"}}`:              fault.Conflict,
		`{"error":{"code":503,"err_code":10077,"description":"maximum bytes exceeded"}}`:                             fault.Unavailable,
		`{"error":{"code":503,"err_code":10077,"description":"write /data/1.blk: no space left on device"}}`:         fault.Unavailable,
		`{"error":{"code":500,"err_code":10047,"description":"insufficient storage resources available"}}`:           fault.Unavailable,
		`{"error":{"code":503,"err_code":10023,"description":"insufficient resources"}}`:                             fault.Unavailable,
		`{"error":{"code":400,"err_code":10054,"description":"message size exceeds maximum allowed"}}`:               fault.Invalid,
		`{"error":{"code":400,"err_code":10200,"description":"atomic publish batch commit is invalid"}}`:             fault.Internal,
		`{"error":{"code":400,"err_code":10176,"description":"atomic publish batch is incomplete"}}`:                 fault.Unavailable,
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
