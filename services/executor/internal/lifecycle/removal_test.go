package lifecycle

import (
	"testing"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestACommandRemovesOnlyWhatTheDecisionAllows(t *testing.T) {
	every(func(facts Facts) {
		for _, byTombstone := range []bool{false, true} {
			f := Findings{Facts: facts, ByTombstone: byTombstone}
			if begun, code := DecideRemoval(f); begun || (code == "") != (Decide(facts).Action == Uninstall) {
				t.Fatalf("begun %v, code %q with %+v", begun, code, f)
			}
		}
	})
}

func TestARefusedRemovalNamesItsReason(t *testing.T) {
	allowed := Findings{
		Facts: Facts{
			Identity: true, Ownership: serverv1.Ownership_OWNERSHIP_MANUAL, Life: serverv1.Life_LIFE_DEAD,
			Proof: ProofGood, Login: LoginIn, Reachable: true, Inventory: InventoryTrusted,
		},
		ByTombstone: true, TombstoneServer: "a",
	}
	for name, c := range map[string]struct {
		change func(*Findings)
		begun  bool
		code   string
	}{
		"allowed":             {func(*Findings) {}, false, ""},
		"begun":               {func(f *Findings) { f.Begun = "a" }, true, ""},
		"begun for another":   {func(f *Findings) { f.Begun = "b" }, false, "OTHER_TOMBSTONE"},
		"begun, over the bus": {func(f *Findings) { f.Begun, f.ByTombstone = "b", false }, true, ""},
		"an executor runs":    {func(f *Findings) { f.ExecutorRuns, f.Identity = true, false }, false, "EXECUTOR_RUNS"},
		"nothing is here":     {func(f *Findings) { f.Missing, f.Identity = true, false }, false, "NO_EXECUTOR"},
		"a forged tombstone":  {func(f *Findings) { f.Proof = ProofForged }, false, "BAD_TOMBSTONE"},
		"unmanaged processes": {func(f *Findings) { f.Unmanaged = true }, false, "PROCESSES_STAY"},
		"resting, over the bus": {func(f *Findings) {
			f.ByTombstone, f.Ownership = false, serverv1.Ownership_OWNERSHIP_PROVISIONED
		}, false, "NOT_UNINSTALLED"},
		"no inventory, over the bus": {
			func(f *Findings) { f.ByTombstone, f.Inventory = false, InventoryNone }, false, "NO_INVENTORY",
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := allowed
			c.change(&f)
			if begun, code := DecideRemoval(f); begun != c.begun || code != c.code {
				t.Errorf("got begun %v, code %q; want %v, %q", begun, code, c.begun, c.code)
			}
		})
	}
}
