package nearest_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/nearest"
)

func ExampleName() {
	agents := slices.Values([]string{"web", "node-exporter", "beacon"})
	fmt.Println(nearest.Name("node-exproter", agents))
	fmt.Println(nearest.Name("wbe", agents))
	fmt.Printf("%q\n", nearest.Name("postgres", agents))
	// Output:
	// node-exporter
	// web
	// ""
}

func TestTheNearestNameIsTheOneWithTheFewestEdits(t *testing.T) {
	names := []string{
		"cn-agent",
		"vm-agent",
		"net-agent",
		"config-agent",
		"web",
		"beacon",
		"node-exporter",
		"release",
		"dev",
	}
	for want, nearestName := range map[string]string{
		"cn-agnet": "cn-agent", "wep": "web", "we": "web", "config_agent": "config-agent",
		"zebra": "", "": "", "m-agent": "vm-agent", "cn-agent": "cn-agent", "wbe": "web",
		"beaccon": "beacon", "node-exporte": "node-exporter", "zzz": "", "zzzzzz": "",
		"relase": "release", "dve": "dev",
	} {
		if have := nearest.Name(want, slices.Values(names)); have != nearestName {
			t.Errorf("nearest to %q is %q; want %q", want, have, nearestName)
		}
	}
}

func TestOfEquallyNearNamesTheOneThatBeginsAlikeIsReturned(t *testing.T) {
	if have := nearest.Name("upp", slices.Values([]string{"app", "up"})); have != "up" {
		t.Errorf("nearest to upp is %q; want up", have)
	}
}

func TestTheOrderOfNamesDoesNotMatter(t *testing.T) {
	names := []string{"ab", "aa", "ac"}
	first := nearest.Name("ax", slices.Values(names))
	slices.Reverse(names)
	if second := nearest.Name("ax", slices.Values(names)); first != second {
		t.Errorf("%q, then %q", first, second)
	}
}
