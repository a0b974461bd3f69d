package rollout

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/garrison-fleet/garrison/pkg/noun/rollout"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func TestStagesAreReadAsTheyAreWritten(t *testing.T) {
	for text, want := range map[string][]string{
		"10,25%":                             {"10", "25%"},
		" 10% ; 50%":                         {"10%", "50%"},
		"env=canary; rack in (a,b);25%;rest": {"env=canary", "rack in (a,b)", "25%"},
		"env=test,rack=a":                    {"env=test,rack=a"},
		"25% of rack=a;2 of zone!=x,os=linux": {
			"25% of rack=a", "2 of zone!=x,os=linux",
		},
		"memory>=16GiB; executor<1.4.0;rack not in (1,2)": {"memory>=16GiB", "executor<1.4.0", "rack not in (1,2)"},
		"label.os=x":         {"os=x"},
		"name in (web-1,10)": {"name in (web-1,10)"},
		"rest":               nil,
	} {
		var s waveStages
		if err := s.read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
		var have []string
		for _, stage := range s.list {
			have = append(have, rollout.StageText(stage))
		}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestStagesThatMeanNothingAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		"x":               "not a number of servers",
		"all":             "not a number of servers",
		"":                "not a number of servers",
		"10%;":            "not a number of servers",
		"rest;10%":        "nothing comes after rest",
		"0":               "at least one server",
		"10%,0%":          "at least one server",
		"10%,env=prod":    "semicolon",
		"10,20 of env=a":  "one size",
		"x of env=a":      "not a number of servers",
		"10% of web-1":    "not a number of servers",
		"env=a,web-1":     "mixes names",
		"rack in (a,b":    "the parentheses do not match",
		"=a":              `"=a"`,
		"101%":            "not a number of servers",
		"10% of rack in ": "not a number of servers",
	} {
		var s waveStages
		if err := s.read(text); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "--on") {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	var s waveStages
	if err := s.read("rest"); err != nil || s.read("10%") == nil {
		t.Errorf("a stage in a later flag follows the rest: %v", err)
	}
}

// A stage has conditions as a selector has them, without being one.
func TestTheRelationsOfAStageAreTheOperatorsOfASelector(t *testing.T) {
	operators := intentv1.Operator_name
	if len(operators) != len(rolloutv1.Relation_name) {
		t.Errorf("%d operators and %d relations", len(operators), len(rolloutv1.Relation_name))
	}
	for n, name := range rolloutv1.Relation_name {
		if want := strings.Replace(name, "RELATION", "OPERATOR", 1); operators[n] != want {
			t.Errorf("relation %d is %s, and operator %d is %s", n, name, n, operators[n])
		}
	}
}

func TestAPlanNamesWhichServersEachWaveHas(t *testing.T) {
	var s waveStages
	if err := s.read("env=canary; 25% of rack=a"); err != nil {
		t.Fatal(err)
	}
	p := &registryv1.PlanRolloutResponse{
		Waves: []uint32{2, 1, 9}, Strategy: &rolloutv1.Strategy{Stages: s.list},
	}
	want := "waves 1: env=canary (2 servers); 2: 25% of rack=a (1 server); " +
		"3: the rest, which no stage takes (9 servers)"
	if have := groupLine(p); have != want {
		t.Errorf("%q, want %q", have, want)
	}
}
