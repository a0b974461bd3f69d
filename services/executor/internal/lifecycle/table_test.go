package lifecycle

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// row is one line of the table: of its columns, an empty one may be anything.
type row struct{ identity, ownership, life, proof, login, inventory, left, verdict string }

// table returns the decision as a page shows it: the first line that fits holds. It is
// made by asking Decide, one fact changed at a time.
func table() string {
	healthy := Facts{
		Identity:  true,
		Ownership: serverv1.Ownership_OWNERSHIP_MANUAL,
		Life:      serverv1.Life_LIFE_DEAD,
		Proof:     ProofGood,
		Login:     LoginIn,
		Reachable: true,
		Inventory: InventoryTrusted,
	}
	var rows []row
	add := func(r row, change func(*Facts)) {
		f := healthy
		change(&f)
		v := Decide(f)
		r.verdict = strings.TrimSpace(v.Action.String() + " " + v.Code)
		rows = append(rows, r)
	}
	add(row{identity: "unreadable"}, func(f *Facts) { f.Identity = false })
	add(row{life: "not known here"}, func(f *Facts) { f.Life = 99 })
	for _, p := range []Proof{ProofForged, ProofOther, ProofMissing} {
		add(row{life: "dead", proof: p.String()}, func(f *Facts) { f.Proof = p })
	}
	for _, l := range []Login{LoginDenied, LoginRevoked} {
		add(row{life: "dead", proof: "good", login: l.String()}, func(f *Facts) { f.Login = l })
	}
	add(row{life: "refused: removed"}, func(f *Facts) { f.Refusal = RefusalRemoved })
	for l := LoginDenied; l <= LoginOther; l++ {
		add(row{login: l.String()}, func(f *Facts) { f.Login, f.Life = l, serverv1.Life_LIFE_ALIVE })
	}
	add(row{life: "refused: unknown"}, func(f *Facts) { f.Refusal = RefusalUnknown })
	add(row{life: "not dead, refused: dead"},
		func(f *Facts) { f.Refusal, f.Life = RefusalDead, serverv1.Life_LIFE_ALIVE })
	for h := HistoryLost; h <= HistoryImpossible; h++ {
		add(row{life: "history " + h.String()}, func(f *Facts) { f.History = h })
	}
	for i := InventoryNone; i < InventoryTrusted; i++ {
		add(row{inventory: i.String()}, func(f *Facts) { f.Inventory = i })
	}
	for l := LoginPending; l <= LoginUntrusted; l++ {
		add(row{life: "not dead", login: l.String()}, func(f *Facts) { f.Life, f.Login = serverv1.Life_LIFE_ALIVE, l })
	}
	add(row{life: "dead", left: "agents or changes"}, func(f *Facts) { f.Instances = true })
	for _, p := range []Proof{ProofNone, ProofUnchecked} {
		add(row{life: "dead", proof: p.String()}, func(f *Facts) { f.Proof = p })
	}
	add(row{ownership: "provisioned", life: "dead", proof: "good"},
		func(f *Facts) { f.Ownership = serverv1.Ownership_OWNERSHIP_PROVISIONED })
	add(row{ownership: "unknown", life: "dead", proof: "good"},
		func(f *Facts) { f.Ownership = serverv1.Ownership_OWNERSHIP_UNSPECIFIED })
	add(row{ownership: "manual", life: "dead", proof: "good", login: "not in, or away again"},
		func(f *Facts) { f.Reachable = false })
	add(row{"read", "manual", "dead", "good", "in", "trusted", "nothing", ""}, func(*Facts) {})
	return draw(rows)
}

func draw(rows []row) string {
	var b strings.Builder
	b.WriteString(
		"| identity | ownership | life | tombstone | login | inventory | left here | decision |\n" +
			"|---|---|---|---|---|---|---|---|\n",
	)
	for _, r := range rows {
		for _, cell := range []string{
			r.identity, r.ownership, r.life, r.proof, r.login, r.inventory, r.left, r.verdict,
		} {
			b.WriteString("| " + cmp.Or(cell, "–") + " ")
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// picture returns the ways from one fate to another that one changed fact opens, with the
// codes that they lead to.
func picture() string {
	ways := map[[2]Action]map[string]bool{}
	every(func(from Facts) {
		for _, to := range neighbours(from) {
			a, b := Decide(from), Decide(to)
			// it is acted on at once, and life only moves forward
			if a.Action == b.Action || a.Action == Uninstall || from.Life > to.Life {
				continue
			}
			way := [2]Action{a.Action, b.Action}
			if ways[way] == nil {
				ways[way] = map[string]bool{}
			}
			ways[way][b.Code] = true
		}
	})
	var b strings.Builder
	b.WriteString("stateDiagram-v2\n    [*] --> work: joined\n")
	lines := []string{"    uninstall --> [*]"}
	for way, codes := range ways {
		delete(codes, "")
		edge := "    " + way[0].String() + " --> " + way[1].String()
		if len(codes) == 0 {
			lines = append(lines, edge)
		}
		for some := range slices.Chunk(slices.Sorted(maps.Keys(codes)), 4) { // a line of the page has 120 columns
			lines = append(lines, edge+": "+strings.Join(some, " "))
		}
	}
	slices.Sort(lines)
	return b.String() + strings.Join(lines, "\n") + "\n"
}

// neighbours returns the facts that differ from f in one.
func neighbours(f Facts) (out []Facts) {
	with := func(change func(*Facts)) {
		g := f
		change(&g)
		out = append(out, g)
	}
	for l := range Login(len(logins)) {
		with(func(g *Facts) { g.Login = l })
	}
	for r := range Refusal(len(refusals)) {
		with(func(g *Facts) { g.Refusal = r })
	}
	for h := range History(len(histories)) {
		with(func(g *Facts) { g.History = h })
	}
	for p := range Proof(len(proofs)) {
		with(func(g *Facts) { g.Proof = p })
	}
	for i := range Inventory(len(inventories)) {
		with(func(g *Facts) { g.Inventory = i })
	}
	for l := range serverv1.Life_name {
		with(func(g *Facts) { g.Life = serverv1.Life(l) })
	}
	with(func(g *Facts) { g.Identity = !g.Identity })
	with(func(g *Facts) { g.Reachable = !g.Reachable })
	with(func(g *Facts) { g.Instances = !g.Instances })
	with(func(g *Facts) { g.Changes = !g.Changes })
	return out
}
