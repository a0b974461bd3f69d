package ledger

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"
)

// Mark returns a short digest of a recorded fact's place, id and time. Two ledgers that differ at a place have
// different marks there. It is never 0.
func Mark(f Fact) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", f.Sequence, f.ID, f.At.UTC().Format(time.RFC3339Nano)))
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}
