package view

import (
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// ClaimKey is the key of claims: the one key of the noun task that is no task's id, and
// the one row of the table admission.
const ClaimKey = "admission"

// Claim is who moves queued tasks on.
type Claim struct {
	Process  string // empty when nobody ever claimed it
	Sequence uint64 // of the claim; what is recorded under it is guarded by it
	Moved    uint64 // the last fact with which a task left the queue
}

// Claim gives the last claim.
func (v *View) Claim() Claim {
	a, _ := v.admission.Get(ClaimKey)
	return Claim{Process: a.GetProcessId(), Sequence: a.GetClaimedSequence(), Moved: a.GetMovedSequence()}
}

func (v *View) claimed(f ledger.Fact, b *taskv1.Claimed) bool {
	if f.Key != ClaimKey {
		return false
	}
	r := v.admissionRow(f.Sequence)
	r.ProcessId, r.ClaimedSequence = b.ProcessId, f.Sequence
	return true
}

// leftQueue notes that somebody moves queued tasks on.
func (v *View) leftQueue(sequence uint64) { v.admissionRow(sequence).MovedSequence = sequence }

// admissionRow gives the one row of admission, as of a fact.
func (v *View) admissionRow(sequence uint64) *dispatcherv1.AdmissionRecord {
	r, ok := v.admission.Get(ClaimKey)
	if !ok {
		r = &dispatcherv1.AdmissionRecord{}
	}
	v.admission.Put(ClaimKey, r, sequence)
	return r
}
