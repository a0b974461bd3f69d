package selector_test

import (
	"testing"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
)

func TestASelectorIsSpelledAsFlags(t *testing.T) {
	for want, s := range map[string]*intentv1.Selector{
		"--on SELECTOR": {},
		"--on all":      {All: true},
		"--on a,b":      {Servers: []string{"a", "b"}},
		"--on env=prod --on label.rack=r1 --on label.row=2": {
			Environment: "prod", Labels: map[string]string{"row": "2", "rack": "r1"},
		},
	} {
		if have := selector.Flags(s); have != want {
			t.Errorf("%v: %q; want %q", s, have, want)
		}
	}
	if have := selector.Flags(&intentv1.Selector{Not: []*intentv1.Selector{{All: true}}}); have != "--on SELECTOR" {
		t.Errorf("a nested selector: %q", have)
	}
}
