package ssh

import (
	"google.golang.org/protobuf/encoding/protojson"

	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
)

// Outcome is the outcome of a clean-up.
type Outcome = *reportv1.CleanUpOutcome

// MaxReceipt is the largest size of a receipt.
const MaxReceipt = 16 << 20

// ParseOutcome parses the JSON of an outcome. Unknown fields are ignored.
func ParseOutcome(data []byte) (Outcome, error) {
	o := &reportv1.CleanUpOutcome{}
	return o, (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, o)
}
