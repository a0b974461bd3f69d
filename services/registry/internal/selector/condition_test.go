package selector_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/selector"
	"github.com/garrison-fleet/garrison/services/registry/internal/view"
)

// hall is three different machines: a and b in rack a, c without a rack.
func hall() *view.View {
	v := view.New()
	sequence := uint64(0)
	apply := func(noun ledger.Noun, key string, body proto.Message) {
		sequence++
		v.Apply(ledger.Fact{Noun: noun, Key: key, Body: body, At: time.Unix(1, 0), Sequence: sequence})
	}
	apply(ledger.Environment, "prod", &environmentv1.Created{Environment: &environmentv1.Environment{}})
	add := func(name, environment string, labels map[string]string, s *serverv1.Sysinfo) {
		apply(ledger.Server, name, &serverv1.Invited{Name: name, Environment: environment, Labels: labels})
		apply(ledger.Server, name, &serverv1.Enrolled{Sysinfo: s})
	}
	linux := func(arch string) *serverv1.Platform { return &serverv1.Platform{Os: "linux", Arch: arch} }
	add("a", "prod", map[string]string{"rack": "a", "os": "label"}, &serverv1.Sysinfo{
		Platform: linux("amd64"), Processors: 4, MemoryBytes: 8 << 30, ExecutorVersion: "1.4.0", Hostname: "alpha",
	})
	add("b", "prod", map[string]string{"rack": "a"}, &serverv1.Sysinfo{
		Platform: linux("arm64"), Processors: 16, MemoryBytes: 32 << 30, ExecutorVersion: "v1.10.0", Kernel: "6.12",
	})
	add("c", "", nil,
		&serverv1.Sysinfo{Platform: &serverv1.Platform{Os: "illumos", Arch: "amd64"}, ExecutorVersion: "unstamped"})
	return v
}

func is(field string, op intentv1.Operator, values ...string) *intentv1.Condition {
	return &intentv1.Condition{Field: field, Operator: op, Values: values}
}

func TestConditionsSelectByLabelAndBySysinfo(t *testing.T) {
	const (
		in, notIn     = intentv1.Operator_OPERATOR_IN, intentv1.Operator_OPERATOR_NOT_IN
		less, atMost  = intentv1.Operator_OPERATOR_LESS, intentv1.Operator_OPERATOR_AT_MOST
		more, atLeast = intentv1.Operator_OPERATOR_MORE, intentv1.Operator_OPERATOR_AT_LEAST
	)
	where := func(c ...*intentv1.Condition) *intentv1.Selector { return &intentv1.Selector{Where: c} }
	without := func(n ...*intentv1.Selector) *intentv1.Selector { return &intentv1.Selector{All: true, Not: n} }
	for _, c := range []struct {
		name string
		on   *intentv1.Selector
		want string // names, or a code
	}{
		{"one of several values", where(is("label.rack", in, "a", "z")), "a b"},
		{"none of the values, or no such label", where(is("label.rack", notIn, "a")), "c"},
		{"a label with the name of a field", where(is("label.os", in, "label")), "a"},
		{"an operating system", where(is("os", in, "illumos")), "c"},
		{"a platform", where(is("platform", in, "linux/amd64", "illumos/amd64")), "a c"},
		{"a host name", where(is("hostname", in, "alpha")), "a"},
		{"not a kernel; unknown ones count", where(is("kernel", notIn, "6.12")), "a c"},
		{"processors", where(is("cpus", more, "4")), "b"},
		{"processors, or as many", where(is("cpus", atLeast, "4")), "a b"},
		{"memory with a unit", where(is("memory", less, "16GiB")), "a"},
		{"the same memory in another unit", where(is("memory", in, "8192MiB")), "a"},
		{"versions are not text", where(is("executor", atMost, "1.9.0")), "a"},
		{"a version with a v", where(is("executor", in, "1.10.0")), "b"},
		{"all must hold", where(is("os", in, "linux"), is("cpus", atLeast, "8")), "b"},
		{"without a server", without(&intentv1.Selector{Servers: []string{"b"}}), "a c"},
		{"without two kinds", without(&intentv1.Selector{
			Environment: "prod", Where: []*intentv1.Condition{is("arch", in, "arm64")},
		},
			&intentv1.Selector{Servers: []string{"c"}}), "a"},
		{"without all", without(&intentv1.Selector{All: true}), "NO_SERVERS"},
		{"without one that is not there", without(&intentv1.Selector{Servers: []string{"d"}}), "UNKNOWN_SERVER"},
		{"only without", &intentv1.Selector{Not: []*intentv1.Selector{{Servers: []string{"a"}}}}, "EMPTY_SELECTOR"},
		{"not without", without(&intentv1.Selector{All: true, Not: []*intentv1.Selector{{All: true}}}), "BAD_SELECTOR"},
		{"no such field", where(is("kernle", in, "6.12")), "BAD_SELECTOR"},
		{"a presence that is not recorded", where(is("presence", in, "late")), "BAD_SELECTOR"},
		{"without one that is not", where(is("presence", notIn, "online", "late")), "BAD_SELECTOR"},
		{"no value", where(is("os", in)), "BAD_SELECTOR"},
		{"no operator", where(is("os", 0, "linux")), "BAD_SELECTOR"},
		{"no order", where(is("os", less, "linux")), "BAD_SELECTOR"},
		{"an order of two", where(is("cpus", less, "1", "2")), "BAD_SELECTOR"},
		{"no number", where(is("memory", less, "much")), "BAD_SELECTOR"},
		{"no such environment", where(is("env", notIn, "test")), "UNKNOWN_ENVIRONMENT"},
	} {
		t.Run(c.name, func(t *testing.T) {
			found, refusal := selector.Resolve(hall(), c.on)
			var names []string
			for _, s := range found.Servers {
				names = append(names, s.Name)
			}
			slices.Sort(names)
			have := strings.Join(names, " ")
			if refusal != nil {
				have = refusal.Code
			}
			if have != c.want {
				t.Errorf("%s (%v); want %s", have, refusal, c.want)
			}
		})
	}
}

func TestASelectorThatMatchesNothingCountsAndNamesTheNearest(t *testing.T) {
	for _, c := range []struct {
		on               *intentv1.Selector
		nearest, message string
	}{
		{&intentv1.Selector{Where: []*intentv1.Condition{is("os", intentv1.Operator_OPERATOR_IN, "linus")}}, "linux",
			"no server that is alive matches os=linus (3 searched; os=linus matches 0)"},
		{&intentv1.Selector{Labels: map[string]string{"rak": "a"}, Environment: "prod"}, "rack",
			"no server that is alive matches env=prod and rak=a (3 searched; env=prod matches 2; rak=a matches 0)"},
		{&intentv1.Selector{Labels: map[string]string{"evn": "prod"}}, "env",
			"no server that is alive matches evn=prod (3 searched; evn=prod matches 0)"},
		{&intentv1.Selector{Where: []*intentv1.Condition{is("presence", intentv1.Operator_OPERATOR_IN, "ofline")}},
			"offline", "presence=ofline: no presence \"ofline\" (known: online, offline)"},
		{&intentv1.Selector{Where: []*intentv1.Condition{is("presence", intentv1.Operator_OPERATOR_NOT_IN, "on")}},
			"", "presence!=on: no presence \"on\" (known: online, offline)"},
	} {
		_, refusal := selector.Resolve(hall(), c.on)
		if refusal.GetMessage() != c.message || refusal.GetNearest() != c.nearest {
			t.Errorf("%v\nwant %s, nearest %s", refusal, c.message, c.nearest)
		}
	}
}
