package labelrule_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/labelrule"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

func is(field string, values ...string) *intentv1.Condition {
	return &intentv1.Condition{Field: field, Operator: intentv1.Operator_OPERATOR_IN, Values: values}
}

func rule(name, labels string, when ...*intentv1.Condition) *labelrulev1.LabelRule {
	r := &labelrulev1.LabelRule{Name: name, Labels: map[string]string{}, When: when}
	for pair := range strings.FieldsSeq(labels) {
		k, v, _ := strings.Cut(pair, "=")
		r.Labels[k] = v
	}
	return r
}

// rules returns rules in the order of their names.
func rules(all ...*labelrulev1.LabelRule) labelrule.Rules {
	return func(yield func(string, *labelrulev1.LabelRule) bool) {
		for _, r := range all {
			if !yield(r.Name, r) {
				return
			}
		}
	}
}

func alive(os string, labels map[string]string) *serverv1.Server {
	return &serverv1.Server{
		Life: serverv1.Life_LIFE_ALIVE, Labels: labels,
		Sysinfo: &serverv1.Sysinfo{Platform: &serverv1.Platform{Os: os, Arch: "amd64"}},
	}
}

func TestAServerGetsTheLabelsOfTheRulesThatItMeets(t *testing.T) {
	all := rules(rule("a", "platform=smartos tier=1", is("os", "illumos")),
		rule("b", "platform=linux", is("os", "linux")),
		rule("c", "platform=other arch=amd64", is("arch", "amd64")))
	for name, c := range map[string]struct {
		server *serverv1.Server
		want   string
	}{
		"one rule":              {alive("linux", nil), "arch=amd64/c platform=linux/b"},
		"the first name wins":   {alive("illumos", nil), "arch=amd64/c platform=smartos/a tier=1/a"},
		"an operator's wins":    {alive("linux", map[string]string{"platform": "mine"}), "arch=amd64/c"},
		"before sysinfo, none":  {&serverv1.Server{Life: serverv1.Life_LIFE_ALIVE}, ""},
		"an operator's is kept": {alive("plan9", map[string]string{"arch": "x", "platform": "y"}), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var have []string
			got := labelrule.Labels(all, c.server)
			for _, k := range slices.Sorted(maps.Keys(got)) {
				have = append(have, k+"="+got[k].Value+"/"+got[k].Rule)
			}
			if strings.Join(have, " ") != c.want {
				t.Errorf("%v, want %s", have, c.want)
			}
		})
	}
}

func TestNothingIsDueOnceAServerHasItsLabels(t *testing.T) {
	all := rules(rule("a", "platform=linux", is("os", "linux")))
	s := alive("linux", map[string]string{"rack": "a"})
	due := labelrule.Due(all, s)
	if due == nil {
		t.Fatal("nothing is due at first")
	}
	s.RuleLabels, s.Labels["platform"] = due.Labels, "linux"
	if again := labelrule.Due(all, s); again != nil {
		t.Errorf("due again: %v", again)
	}
	if gone := labelrule.Due(rules(), s); gone == nil || len(gone.Labels) != 0 {
		t.Errorf("without rules: %v", gone)
	}
	s.Life = serverv1.Life_LIFE_DEAD
	if dead := labelrule.Due(rules(), s); dead != nil {
		t.Errorf("of a dead server: %v", dead)
	}
}

func TestARuleDependsOnNoLabelAndNotOnPresence(t *testing.T) {
	for name, r := range map[string]*labelrulev1.LabelRule{
		"a label":      rule("a", "x=1", is("label.y", "1")),
		"presence":     rule("a", "x=1", is("presence", "online")),
		"no condition": rule("a", "x=1"),
		"no label":     rule("a", "", is("os", "linux")),
		"no value":     rule("a", "x=1", is("os")),
	} {
		t.Run(name, func(t *testing.T) {
			if refusal := labelrule.Check(view.New(), rules(), r); refusal.GetCode() != "INVALID" {
				t.Errorf("refusal %v", refusal)
			}
		})
	}
	if refusal := labelrule.Check(view.New(), rules(), rule("a", "x=1", is("os", "linux"))); refusal != nil {
		t.Errorf("a good rule: %v", refusal)
	}
}
