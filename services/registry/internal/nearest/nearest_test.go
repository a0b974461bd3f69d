package nearest

import (
	"slices"
	"testing"
)

func TestTheNearestNameIsTheOneThatWasProbablyMeant(t *testing.T) {
	names := []string{"cn-agent", "vm-agent", "net-agent", "config-agent", "web"}
	for want, nearest := range map[string]string{
		"cn-agnet": "cn-agent", "wep": "web", "we": "web", "config_agent": "config-agent",
		"zebra": "", "": "", "m-agent": "vm-agent", "cn-agent": "cn-agent",
	} {
		if have := Name(want, slices.Values(names)); have != nearest {
			t.Errorf("%q is near %q; want %q", want, have, nearest)
		}
	}
}

func TestTheOrderOfNamesDoesNotMatter(t *testing.T) {
	names := []string{"ab", "aa", "ac"}
	first := Name("ax", slices.Values(names))
	slices.Reverse(names)
	if second := Name("ax", slices.Values(names)); first != second {
		t.Errorf("%q, then %q", first, second)
	}
}
