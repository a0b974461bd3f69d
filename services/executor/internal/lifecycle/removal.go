package lifecycle

import (
	"cmp"

	"github.com/garrison-fleet/garrison/pkg/code"
)

// Findings is what a command that is to remove the executor finds under the root.
type Findings struct {
	Facts
	ExecutorRuns    bool   // an executor holds the journal
	Missing         bool   // neither an identity nor a journal exists
	Unmanaged       bool   // processes run below the root that the journal does not know
	Begun           string // the server whose removal was begun, or ""
	ByTombstone     bool   // the command brings the tombstone and takes the receipt, in place of the bus
	TombstoneServer string // of that tombstone
}

// DecideRemoval reports whether a removal was begun and is to be completed; otherwise it may begin.
// A code refuses both.
func DecideRemoval(f Findings) (begun bool, why string) {
	if f.Begun != "" {
		if f.ByTombstone && f.TombstoneServer != f.Begun {
			return false, rejectedProofs[ProofOther]
		}
		return true, ""
	}
	outcome := Decide(f.Facts)
	switch {
	case f.ExecutorRuns:
		return false, code.ExecutorRuns
	case f.Missing:
		return false, code.NoExecutor
	case outcome.Action != Uninstall && (f.ByTombstone || OfInventory(outcome.Code)):
		return false, cmp.Or(outcome.Code, code.NotUninstalled)
	case outcome.Action != Uninstall:
		return false, code.NotUninstalled
	case f.Unmanaged:
		return false, code.ProcessesStay
	}
	return false, ""
}

// OfInventory reports whether a code says that nothing follows from the inventory.
func OfInventory(why string) bool {
	return why == code.NoInventory || why == code.InventoryUntrusted
}
