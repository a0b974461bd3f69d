package lifecycle

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// every calls f with every combination of facts.
func every(f func(Facts)) (n int) {
	for ownership := range serverv1.Ownership_name {
		for life := range int32(len(serverv1.Life_name) + 1) { // and one that only a newer version knows
			for proof := range Proof(len(proofs)) {
				for login := range Login(len(logins)) {
					for rest := range 16 * len(histories) * len(inventories) * len(refusals) {
						bits := rest % 16
						f(Facts{
							Ownership: serverv1.Ownership(ownership),
							Life:      serverv1.Life(life), Proof: proof, Login: login,
							Identity: bits&1 != 0, Reachable: bits&2 != 0, Instances: bits&4 != 0, Changes: bits&8 != 0,
							History:   History(rest / 16 % len(histories)),
							Inventory: Inventory(rest / 16 / len(histories) % len(inventories)),
							Refusal:   Refusal(rest / 16 / len(histories) / len(inventories)),
						})
						n++
					}
				}
			}
		}
	}
	return n
}

func TestOfAllCombinationsOneUninstalls(t *testing.T) {
	want := Facts{
		Identity: true, Ownership: serverv1.Ownership_OWNERSHIP_MANUAL, Life: serverv1.Life_LIFE_DEAD,
		Proof: ProofGood, Login: LoginIn, Reachable: true, Inventory: InventoryTrusted,
	}
	found := 0
	n := every(func(f Facts) {
		if Decide(f).Action != Uninstall {
			return
		}
		found++
		if f.Refusal == RefusalDead { // says no more than the document
			f.Refusal = RefusalNone
		}
		if f != want {
			t.Errorf("it uninstalls with %+v", f)
		}
	})
	if found != 2 || n != 3*6*6*12*4*3*16*4 {
		t.Errorf("%d of %d combinations uninstall; want one of 995,328, also with its death refused", found, n)
	}
}

// The short form of the contract: of the four combinations of the two facts, one uninstalls.
func TestOneFactAloneIsNotEnough(t *testing.T) {
	for _, c := range []struct {
		granted, proven bool
		want            Action
	}{{false, false, Rest}, {true, false, Rest}, {false, true, Rest}, {true, true, Uninstall}} {
		f := Facts{
			Identity:  true,
			Life:      serverv1.Life_LIFE_DEAD,
			Login:     LoginIn,
			Reachable: true,
			Inventory: InventoryTrusted,
		}
		if c.granted {
			f.Ownership = serverv1.Ownership_OWNERSHIP_MANUAL
		}
		if c.proven {
			f.Proof = ProofGood
		}
		if got := Decide(f); got.Action != c.want {
			t.Errorf("granted %v, proven %v: %v", c.granted, c.proven, got)
		}
	}
}

func TestWhatHoldsForEveryCombination(t *testing.T) {
	every(func(f Facts) {
		v := Decide(f)
		dead := f.Life == serverv1.Life_LIFE_DEAD
		switch {
		case !f.Identity && v.Action != Suspend:
			t.Errorf("without an identity: %v with %+v", v, f)
		case suspendingHistories[f.History] != "" && v.Action != Suspend:
			t.Errorf("a document that is not taken: %v with %+v", v, f)
		case suspendingLogins[f.Login] != "" && v.Action != Suspend:
			t.Errorf("not let in: %v with %+v", v, f)
		case f.Refusal != RefusalNone && v.Action != Suspend && !(dead && f.Refusal == RefusalDead):
			t.Errorf("refused: %v with %+v", v, f)
		case !dead && (v.Action == Rest || v.Action == Uninstall):
			t.Errorf("not dead: %v with %+v", v, f)
		case (f.Instances || f.Changes) && (v.Action == Rest || v.Action == Uninstall):
			t.Errorf("duties are left: %v with %+v", v, f)
		case !MayFollow(f) && v.Action != Suspend:
			t.Errorf("a wrong tombstone, or no inventory: %v with %+v", v, f)
		case f.Inventory != InventoryTrusted && v.Action != Suspend:
			t.Errorf("an inventory that is not trusted: %v with %+v", v, f)
		case v.Code == "" && v.Action != Work && v.Action != Uninstall:
			t.Errorf("%v with %+v does not say why", v, f)
		}
	})
}

// Where a proof is possible, a death without one removes no agent: writing the document is not enough
// without the registry's key.
func TestADeathIsFollowedWithItsProofOrWhereNoneIsPossible(t *testing.T) {
	for proof, want := range map[Proof]bool{
		ProofNone: true, ProofUnchecked: true, ProofForged: false, ProofOther: false,
		ProofMissing: false, ProofGood: true,
	} {
		if got := MayFollow(
			Facts{Life: serverv1.Life_LIFE_DEAD, Proof: proof, Inventory: InventoryTrusted},
		); got != want {
			t.Errorf("with a proof that is %v: believed %v", proof, got)
		}
		for _, i := range []Inventory{InventoryNone, InventoryUntrusted} {
			if MayFollow(Facts{Life: serverv1.Life_LIFE_DEAD, Proof: proof, Inventory: i}) {
				t.Errorf("with a proof that is %v and an inventory that is %v: believed", proof, i)
			}
		}
		if !MayFollow(Facts{Life: serverv1.Life_LIFE_DYING, Proof: proof}) {
			t.Errorf("not dead, with a proof that is %v: not believed", proof)
		}
	}
}

func TestThePageShowsTheDecision(t *testing.T) {
	const page = "../../docs/removal.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := between(t, string(data), "| identity |", "\n\n", table())
	want = between(t, want, "stateDiagram-v2\n", "\n```", picture())
	if string(data) == want {
		return
	}
	if os.Getenv("UPDATE") == "" {
		t.Fatalf("the page is out of date; run the test with UPDATE=1:\n%s", cmp.Diff(string(data), want))
	}
	if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// between puts new text in the place of what begins with start and ends before end.
func between(t *testing.T, page, start, end, text string) string {
	t.Helper()
	before, rest, ok := strings.Cut(page, start)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("the page has no %q", start)
	}
	return before + strings.TrimSuffix(text, "\n") + end + after
}

func TestEveryCodeHasWords(t *testing.T) {
	used := map[string]bool{}
	every(func(f Facts) {
		v := Decide(f)
		if used[v.Code] = true; v.Code != "" && v.Why() == "" {
			t.Fatalf("%s has no words", v.Code)
		}
	})
	for code := range reasons {
		if !used[code] {
			t.Errorf("nothing leads to %s", code)
		}
	}
}

func TestTheAdviceOnAServerLeadsElsewhereThanToItsStatus(t *testing.T) {
	for why := range reasons {
		try := Remedy(why, "01a1")
		if try == "" || strings.Contains(try, "executor status") || strings.Contains(try, "context list") ||
			strings.Contains(try, "SERVER") {
			t.Errorf("%s: try %q", why, try)
		}
	}
	if try := Remedy("", "01a1"); try != "" {
		t.Errorf("without a code: %q", try)
	}
}

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
