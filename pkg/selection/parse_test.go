package selection

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
)

const (
	in, notIn  = intentv1.Operator_OPERATOR_IN, intentv1.Operator_OPERATOR_NOT_IN
	less, more = intentv1.Operator_OPERATOR_LESS, intentv1.Operator_OPERATOR_MORE
	atLeast    = intentv1.Operator_OPERATOR_AT_LEAST
)

func is(field string, op intentv1.Operator, values ...string) *intentv1.Condition {
	return &intentv1.Condition{Field: field, Operator: op, Values: values}
}

func where(c ...*intentv1.Condition) *intentv1.Selector { return &intentv1.Selector{Where: c} }

func TestASelectorIsReadAsItIsSaid(t *testing.T) {
	for _, c := range []struct {
		on   []string
		want *intentv1.Selector
	}{
		{[]string{"all"}, &intentv1.Selector{All: true}},
		{[]string{"web-1,web-2"}, &intentv1.Selector{Servers: []string{"web-1", "web-2"}}},
		{[]string{"env=prod"}, &intentv1.Selector{Environment: "prod"}},
		{[]string{"rack=a,label.os=linux"}, &intentv1.Selector{Labels: map[string]string{"rack": "a", "os": "linux"}}},
		{[]string{"rack in (a, b),os=linux"}, where(is("label.rack", in, "a", "b"), is("os", in, "linux"))},
		{[]string{"rack!=a", "zone not in (x,y)"}, where(is("label.rack", notIn, "a"), is("label.zone", notIn, "x",
			"y"))},
		{[]string{"platform=linux/amd64,memory>=16GiB"}, where(is("platform", in, "linux/amd64"), is("memory",
			atLeast, "16GiB"))},
		{[]string{"processors>4", "executor<1.4.0"}, where(is("cpus", more, "4"), is("executor", less, "1.4.0"))},
		{[]string{"env in (prod,test)"}, where(is("env", in, "prod", "test"))},
		{[]string{"rack==a"}, &intentv1.Selector{Labels: map[string]string{"rack": "a"}}},
		{[]string{"env=prod", "rack=a"},
			&intentv1.Selector{Environment: "prod", Labels: map[string]string{"rack": "a"}}},
		{[]string{"web-1", "rack=a"},
			&intentv1.Selector{Servers: []string{"web-1"}, Labels: map[string]string{"rack": "a"}}},
	} {
		got, err := Parse(c.on)
		if err != nil {
			t.Errorf("%q: %v", c.on, err)
		} else if d := cmp.Diff(c.want, got, protocmp.Transform()); d != "" {
			t.Errorf("%q (-want +have):\n%s", c.on, d)
		}
	}
}

func TestASelectorThatIsNotUnderstoodIsAWrongCommandLine(t *testing.T) {
	for _, on := range [][]string{nil, {""}, {"rack in a,b"}, {"rack in (a,b"}, {"rack in (a,)"}, {"rack in ()"},
		{"rack!"}, {"rack=a=b"}, {"web-1,os=linux"},
		{"!rack"}, {"web-1,rack=a"}, {"web-1,"}, {"=a"}, {"rack="}, {"all,web-1"},
		{"env"}, {"env=a", "env=b"}, {"rack=a", "rack=b"}} {
		if got, err := Parse(on); err == nil {
			t.Errorf("%q: have %v and %v, want a usage error", on, got, err)
		}
	}
}

func TestWhatASelectorIsSaidAsReadsBackTheSame(t *testing.T) {
	s := &intentv1.Selector{
		Servers:     []string{"a", "b"},
		Environment: "prod",
		Labels:      map[string]string{"rack": "x", "zone": "y"},
	}
	if got, want := Args(s), "--on a,b --on env=prod --on rack=x --on zone=y"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	s = where(is("label.rack", notIn, "a", "b"), is("label.os", notIn, "x"), is("memory", atLeast, "1GiB"))
	s.Labels, s.Not = map[string]string{
		"arch": "y",
	}, []*intentv1.Selector{
		{Servers: []string{"a"}},
		where(is("os", in, "linux")),
	}
	want := "--on label.arch=y --on 'rack not in (a,b)' --on 'label.os!=x' --on 'memory>=1GiB' --not a --not os=linux"
	if got := Args(s); got != want {
		t.Errorf("have %s\nwant %s", got, want)
	}
}

func FuzzSelector(f *testing.F) {
	f.Add("all")
	f.Add("env=prod,rack=a")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse([]string{text})
		if err == nil && Args(s) == "" {
			t.Errorf("%q is an empty selector", text)
		}
	})
}

func TestAListWithoutParenthesesIsSaidToLackThem(t *testing.T) {
	for on, want := range map[string]string{
		"role in a,b":           "Try: --on 'role in (a,b)'",
		"role in a":             "Try: --on 'role in (a)'",
		"role not in a, b":      "Try: --on 'role not in (a, b)'",
		"os=linux,role notin a": "Try: --on 'role notin (a)'",
	} {
		if _, err := Parse([]string{on}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", on, err, want)
		}
	}
}
