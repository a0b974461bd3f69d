package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// ClaimKey is the key of claims: the one key of the noun task that is not a task's id, and the one
// row of the table admission.
const ClaimKey = "admission"

// Claim is the last claim: its process is the leader, which opens tasks and moves them out of the queue.
type Claim struct {
	Process  string // empty before the first claim
	Sequence uint64 // of the claim; it guards the facts that are recorded under it
	Moved    uint64 // the sequence of the last fact with which a task was opened or left the queue
}

// claims is the table admission: its one row is the last claim.
type claims struct {
	table *fold.Table[*dispatcherv1.AdmissionRecord]
}

// Claim returns the last claim.
func (w *Rows) Claim() Claim {
	a, _ := w.claims.table.Get(ClaimKey)
	return Claim{Process: a.GetProcessId(), Sequence: a.GetClaimedSequence(), Moved: a.GetMovedSequence()}
}

// apply folds the fact claimed.
func (c *claims) apply(f ledger.Fact, b *taskv1.Claimed) bool {
	if f.Key != ClaimKey {
		return false
	}
	r := c.row(f.Sequence)
	r.ProcessId, r.ClaimedSequence = b.ProcessId, f.Sequence
	return true
}

// worked records progress of the leader.
func (c *claims) worked(sequence uint64) { c.row(sequence).MovedSequence = sequence }

// row returns the row, and sets its sequence.
func (c *claims) row(sequence uint64) *dispatcherv1.AdmissionRecord {
	r, ok := c.table.Get(ClaimKey)
	if !ok {
		r = &dispatcherv1.AdmissionRecord{}
	}
	c.table.Put(ClaimKey, r, sequence)
	return r
}
