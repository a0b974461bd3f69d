package intent_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

// What an instance is called in another system is kept from its install on.
func TestAnInstallKeepsTheOriginsOfItsInstances(t *testing.T) {
	w := fleet(2)
	i := installAll().Intent
	i.GetInstall().Origins = map[string]string{ident.From("server", "0"): "triton:one"}
	if d := w.decide("install", i); d.Refusal != nil {
		t.Fatal(d.Refusal)
	}
	w.image("two", "2.0.0")
	if d := w.decide("upgrade", upgradeAll()); counted(d)[0] != 2 {
		t.Fatalf("%v", d.Refusal)
	}
	if a, b := w.on(0), w.on(1); a.GetOrigin() != "triton:one" || b.GetOrigin() != "" || a.GetGeneration() != 2 {
		t.Errorf("%v and %v", a, b)
	}
	for _, bad := range []string{"a\nb", strings.Repeat("x", 256)} {
		i.Ask = &intentv1.Intent_Install{Install: &intentv1.Install{
			Agent: "web", On: &intentv1.Selector{All: true}, Origins: map[string]string{"s": bad},
		}}
		if d := w.decide("install", i); d.Refusal.GetCode() != code.Invalid {
			t.Errorf("%q: %v", bad, d.Refusal)
		}
	}
}

// An agent that an install brings starts with its own values. One that is there keeps what it has.
func TestAnInstallBringsOwnValues(t *testing.T) {
	w := fleet(3)
	own := func(server, value string) *intentv1.Intent {
		i := installAll().Intent
		i.GetInstall().Own = map[string]*intentv1.OwnValues{
			ident.From("server", server): {Values: map[string]string{"role": value}},
		}
		return i
	}
	if d := w.decide("install", own("0", "head")); d.Refusal != nil {
		t.Fatal(d.Refusal)
	}
	a, b := w.on(0), w.on(1)
	if a.GetConfiguration().GetOwn()["role"] != "head" || a.GetConfiguration().GetMetadata()["role"] != "head" ||
		b.GetConfiguration().GetOwn() != nil || a.GetOwnChange() == nil || b.GetOwnChange() != nil {
		t.Errorf("%v and %v", a, b)
	}
	if d := w.decide("install", own("1", "late")); counted(d)[0] != 0 || w.on(1).GetConfiguration().GetOwn() != nil {
		t.Errorf("%v; want nothing changed", counted(d))
	}
	bad := own("0", "x")
	bad.GetInstall().Own[ident.From("server", "0")].Values = map[string]string{"a b": "c"}
	if d := w.decide("install", bad); d.Refusal.GetCode() != code.BadMetadata {
		t.Errorf("%v", d.Refusal)
	}
}
