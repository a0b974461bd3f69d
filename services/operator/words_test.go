package operator

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	apiv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/api/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"
)

const (
	in, notIn           = intentv1.Operator_OPERATOR_IN, intentv1.Operator_OPERATOR_NOT_IN
	less, more, atLeast = intentv1.Operator_OPERATOR_LESS, intentv1.Operator_OPERATOR_MORE, intentv1.Operator_OPERATOR_AT_LEAST
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
		{[]string{"rack!=a", "zone not in (x,y)"}, where(is("label.rack", notIn, "a"), is("label.zone", notIn, "x", "y"))},
		{[]string{"platform=linux/amd64,memory>=16GiB"}, where(is("platform", in, "linux/amd64"), is("memory", atLeast, "16GiB"))},
		{[]string{"processors>4", "executor<1.4.0"}, where(is("cpus", more, "4"), is("executor", less, "1.4.0"))},
		{[]string{"env in (prod,test)"}, where(is("env", in, "prod", "test"))},
		{[]string{"rack==a"}, &intentv1.Selector{Labels: map[string]string{"rack": "a"}}},
		{[]string{"env=prod", "rack=a"}, &intentv1.Selector{Environment: "prod", Labels: map[string]string{"rack": "a"}}},
		{[]string{"web-1", "rack=a"}, &intentv1.Selector{Servers: []string{"web-1"}, Labels: map[string]string{"rack": "a"}}},
	} {
		got, err := parseSelector(c.on)
		if err != nil {
			t.Errorf("%q: %v", c.on, err)
		} else if d := cmp.Diff(c.want, got, protocmp.Transform()); d != "" {
			t.Errorf("%q (-want +have):\n%s", c.on, d)
		}
	}
}

func TestASelectorThatIsNotUnderstoodIsAWrongCommandLine(t *testing.T) {
	for _, on := range [][]string{nil, {""}, {"rack in a,b"}, {"rack in (a,b"}, {"rack in (a,)"}, {"rack in ()"}, {"rack!"}, {"rack=a=b"}, {"web-1,os=linux"},
		{"!rack"}, {"web-1,rack=a"}, {"web-1,"}, {"=a"}, {"rack="}, {"all,web-1"}, {"env"}, {"env=a", "env=b"}, {"rack=a", "rack=b"}} {
		if got, err := parseSelector(on); codeOf(err) != exitUsage {
			t.Errorf("%q: have %v and %v, want a usage error", on, got, err)
		}
	}
}

func TestWhatASelectorIsSaidAsReadsBackTheSame(t *testing.T) {
	s := &intentv1.Selector{Servers: []string{"a", "b"}, Environment: "prod", Labels: map[string]string{"rack": "x", "zone": "y"}}
	if got, want := selectorArgs(s), "--on a,b --on env=prod --on rack=x --on zone=y"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	s = where(is("label.rack", notIn, "a", "b"), is("label.os", notIn, "x"), is("memory", atLeast, "1GiB"))
	s.Labels, s.Not = map[string]string{"arch": "y"}, []*intentv1.Selector{{Servers: []string{"a"}}, where(is("os", in, "linux"))}
	want := "--on label.arch=y --on 'rack not in (a,b)' --on 'label.os!=x' --on 'memory>=1GiB' --not a --not os=linux"
	if got := selectorArgs(s); got != want {
		t.Errorf("have %s\nwant %s", got, want)
	}
}

func TestATargetIsAVersionAnImageOrAChannel(t *testing.T) {
	const id = "65d947de-86d0-58e2-bb0a-b7dc3d59300f"
	for text, want := range map[string]*intentv1.ImageChoice{
		"beacon":              nil,
		"beacon@1.2.3":        {By: &intentv1.ImageChoice_Version{Version: "1.2.3"}},
		"beacon@1.2.3-rc.1+b": {By: &intentv1.ImageChoice_Version{Version: "1.2.3-rc.1+b"}},
		"beacon@" + id:        {By: &intentv1.ImageChoice_ImageId{ImageId: id}},
		"beacon@dev":          {By: &intentv1.ImageChoice_Channel{Channel: "dev"}},
	} {
		got, err := parseTarget(text)
		if err != nil || got.agent != "beacon" {
			t.Errorf("%s: have agent %q and %v", text, got.agent, err)
		}
		if d := cmp.Diff(want, got.image, protocmp.Transform()); d != "" {
			t.Errorf("%s (-want +have):\n%s", text, d)
		}
	}
	for _, text := range []string{"", "@1.0.0", "beacon@", "Beacon", "beacon@No Channel", "a.b"} {
		if _, err := parseTarget(text); codeOf(err) != exitUsage {
			t.Errorf("%q: have %v, want a usage error", text, err)
		}
	}
}

func TestAnEnumIsSaidAsAWord(t *testing.T) {
	if got := word(taskv1.State_STATE_SUCCEEDED); got != "succeeded" {
		t.Errorf("have %q", got)
	}
	if got := word(taskv1.State_STATE_UNSPECIFIED); got != "" {
		t.Errorf("unspecified is %q, want nothing", got)
	}
	if got, err := parseWord[imagev1.State]("Active"); err != nil || got != imagev1.State_STATE_ACTIVE {
		t.Errorf("have %v and %v", got, err)
	}
	if got, err := parseWord[imagev1.State]("on"); err == nil {
		t.Errorf("have %v, want an error", got)
	}
}

func TestEveryErrorHasItsExitCode(t *testing.T) {
	refusal := &apiv1.Refusal{Code: "X", Component: "registry", Message: "no"}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("x"), 1},
		{usage("x"), 2},
		{ended(3), 3},
		{fmt.Errorf("x: %w", fault.Refuse(fault.Denied, refusal)), 4},
		{exit{code: 7, err: errWaited}, 7},
		{fault.Refuse(fault.Conflict, refusal), 8},
		{fault.Refuse(fault.NotFound, refusal), 1},
		{fault.Refuse(fault.Unavailable, refusal), 1},
		{refusedIntent(&apiv1.Refusal{Code: "CONFLICT"}), 8},
		{refusedIntent(&apiv1.Refusal{Code: "NO_MATCH"}), 1},
	} {
		if got := codeOf(c.err); got != c.want {
			t.Errorf("%v: have %d, want %d", c.err, got, c.want)
		}
	}
}

func TestOnlyTheCommandLinesOwnErrorsNameIt(t *testing.T) {
	if got, want := lineOf(fmt.Errorf("import: %w", fault.Refuse(fault.NotFound, &apiv1.Refusal{Code: "NO", Component: "image-catalog", Message: "m", Try: "t"}))), "image-catalog: NO: m. Try: t"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	if got, want := lineOf(errors.New("m")), "garrison: m"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
}

func TestTasksThatEndedDecideTheExitCode(t *testing.T) {
	good, bad := &taskv1.Task{State: taskv1.State_STATE_SUCCEEDED}, &taskv1.Task{State: taskv1.State_STATE_UNDONE}
	for _, c := range []struct {
		tasks []task
		want  int
	}{{nil, 0}, {[]task{good}, 0}, {[]task{good, bad}, 5}, {[]task{bad}, 1}} {
		if got := tally(c.tasks).code(); got != c.want {
			t.Errorf("%v: have %d, want %d", c.tasks, got, c.want)
		}
	}
}

func TestOnlyTheLastTryOfATaskCounts(t *testing.T) {
	first := &taskv1.Task{Id: "1", ServerId: "s", Agent: "a", Generation: 1, Attempt: 1}
	second := &taskv1.Task{Id: "2", ServerId: "s", Agent: "a", Generation: 1, Attempt: 2}
	other := &taskv1.Task{Id: "3", ServerId: "s", Agent: "b", Generation: 1, Attempt: 1}
	var ids []string
	for _, t := range lastTries([]task{other, second, first}) {
		ids = append(ids, t.GetId())
	}
	if d := cmp.Diff([]string{"3", "2"}, ids); d != "" {
		t.Errorf("(-want +have):\n%s", d)
	}
}

func TestTheNearestNameIsTheOneThatDiffersLeast(t *testing.T) {
	names := []string{"beacon", "node-exporter", "bacon"}
	for asked, want := range map[string]string{"beaccon": "beacon", "node-exporte": "node-exporter", "zzz": "", "": ""} {
		if got := nearest(asked, names); got != want {
			t.Errorf("%q: have %q, want %q", asked, got, want)
		}
	}
}

func TestSinceIsATimeOrHowLongAgo(t *testing.T) {
	s := &session{now: func() time.Time { return noon }}
	for text, want := range map[string]time.Time{"10m": noon.Add(-10 * time.Minute), "2026-01-31T11:00:00Z": noon.Add(-time.Hour)} {
		if got, err := s.parseSince(text); err != nil || !got.Equal(want) {
			t.Errorf("%s: have %v and %v, want %v", text, got, err, want)
		}
	}
}

func FuzzSelector(f *testing.F) {
	f.Add("all")
	f.Add("env=prod,rack=a")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSelector([]string{text})
		if err == nil && selectorArgs(s) == "" {
			t.Errorf("%q is an empty selector", text)
		}
	})
}
