package declare_test

import (
	"strings"
	"testing"

	"github.com/garrison-fleet/garrison/pkg/fault"
	labelrulev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/labelrule/v1"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
)

const rules = `format: 1
labelRules:
  large:
    when:
      - env in (prod,test)
      - memory>=256GiB
      - os=linux
    labels:
      size: large
`

func TestALabelRuleIsWrittenAsItIsSet(t *testing.T) {
	all := live(declare.Live{}, declare.Compare(read(t, rules), declare.Live{}, declare.Options{}))
	rule := all[declare.LabelRules]["large"].(*labelrulev1.LabelRule)
	if len(rule.When) != 3 || rule.When[1].Field != "memory" || rule.Labels["size"] != "large" {
		t.Errorf("%v", rule)
	}
	data, err := declare.Write(&declare.Set{Objects: declare.Objects(all)})
	if err != nil || string(data) != rules {
		t.Errorf("%v\n%s\nwant\n%s", err, data, rules)
	}
	if again := declare.Compare(read(t, string(data)), all, declare.Options{}); len(again.Changes) > 0 {
		t.Errorf("the second comparison changes %+v", again.Changes)
	}
	other := strings.Replace(rules, "256GiB", "64GiB", 1)
	if plan := declare.Compare(read(t, other), all, declare.Options{}); len(plan.Changes) != 1 ||
		plan.Changes[0].Fields[0].Path != "when" {
		t.Errorf("another condition: %+v", plan)
	}
	other = strings.Replace(other, "format: 1", "format: 1\nowner: other", 1)
	if plan := declare.Compare(read(t, other), all, declare.Options{}); len(plan.Problems) != 1 {
		t.Errorf("of another owner: %+v", plan)
	}
	nothing := read(t, "format: 1\napplications: {site: {}}")
	plan := declare.Compare(nothing, all, declare.Options{Prune: true})
	if plan.Counts()[declare.Delete] != 1 {
		t.Errorf("pruned: %+v", plan)
	}
}

func TestAWrongLabelRuleIsRefusedWithItsLine(t *testing.T) {
	for text, want := range map[string]string{
		"x:":                                  "a.yaml:3: label rule \"x\" is not a mapping",
		"x: {}":                               "needs the keys when and labels",
		"x: {when: [os=linux]}":               "needs the keys when and labels",
		"x: {when: os=linux, labels: {a: b}}": "is not a list",
		"x: {when: [{field: os}], labels: {a: b}}":       "a condition is a text",
		"x: {when: ['os=linux,cpus>2'], labels: {a: b}}": "has 2 conditions",
		"x: {when: [web-1], labels: {a: b}}":             "want conditions",
		"x: {when: [os=], labels: {a: b}}":               "is not NAME=VALUE",
		"x: {when: [os=linux], labels: {a: b}, set: 1}":  "has no key \"set\"",
	} {
		_, err := declare.Read([]declare.File{{Name: "a.yaml", Data: []byte("format: 1\nlabelRules:\n  " + text)}})
		if !fault.Is(err, fault.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", text, err, want)
		}
	}
}
