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
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestASelectorIsReadAsItIsSaid(t *testing.T) {
	for _, c := range []struct {
		on   []string
		want *intentv1.Selector
	}{
		{[]string{"all"}, &intentv1.Selector{All: true}},
		{[]string{"web-1,web-2"}, &intentv1.Selector{Servers: []string{"web-1", "web-2"}}},
		{[]string{"env=prod"}, &intentv1.Selector{Environment: "prod"}},
		{[]string{"rack=a,os=linux"}, &intentv1.Selector{Labels: map[string]string{"rack": "a", "os": "linux"}}},
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
	for _, on := range [][]string{nil, {""}, {"rack in (a,b)"}, {"rack!=a"}, {"!rack"}, {"web-1,rack=a"}, {"web-1,"}, {"=a"}, {"rack="}, {"all,web-1"}, {"env"}, {"env=a", "env=b"}, {"rack=a", "rack=b"}} {
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

func done(server, from string) task {
	t := &taskv1.Task{ServerId: server, State: taskv1.State_STATE_SUCCEEDED}
	if from != "" {
		t.From = &imagev1.Ref{Version: from}
	}
	return t
}

func TestTheLineThatUndoesTouchesNothingElse(t *testing.T) {
	on := &intentv1.Selector{All: true}
	names := map[string]string{"1": "web-1", "2": "web-2"}
	record := func(already, passed uint32) *intentv1.Record {
		return &intentv1.Record{Already: already, PassedOver: passed}
	}
	for _, c := range []struct {
		name  string
		o     order
		tasks []task
		want  []string
	}{
		{"an install", order{verb: topology.VerbInstall, agent: "a", on: on, record: record(0, 0)}, []task{done("1", ""), done("2", "")}, []string{"garrison remove a --on all"}},
		{"an install where some had it", order{verb: topology.VerbInstall, agent: "a", on: on, record: record(1, 0)}, []task{done("1", "")}, []string{"garrison remove a --on web-1"}},
		{"an upgrade", order{verb: topology.VerbUpgrade, agent: "a", on: on, record: record(0, 3)}, []task{done("1", "1.0.0")}, []string{"garrison up a@1.0.0 --on all"}},
		{"an upgrade from two versions", order{verb: topology.VerbUpgrade, agent: "a", on: on, record: record(0, 0)}, []task{done("2", "1.1.0"), done("1", "1.0.0")}, []string{"garrison up a@1.0.0 --on web-1", "garrison up a@1.1.0 --on web-2"}},
		{"a removal where some lacked it", order{verb: topology.VerbRemove, agent: "a", on: on, record: record(0, 2)}, []task{done("1", "1.0.0")}, []string{"garrison install a@1.0.0 --on web-1"}},
		{"a refresh", order{verb: topology.VerbRefresh, on: on, record: record(0, 0)}, []task{done("1", "")}, nil},
		{"a failure", order{verb: topology.VerbInstall, agent: "a", on: on, record: record(0, 0)}, []task{{ServerId: "1", State: taskv1.State_STATE_FAILED}}, nil},
		{"half a failure", order{verb: topology.VerbInstall, agent: "a", on: on, record: record(0, 0)}, []task{done("2", ""), {ServerId: "1", State: taskv1.State_STATE_FAILED}}, []string{"garrison remove a --on web-2"}},
		{"an undone upgrade", order{verb: topology.VerbUpgrade, agent: "a", on: on, record: record(0, 0)}, []task{{ServerId: "1", State: taskv1.State_STATE_UNDONE, From: &imagev1.Ref{Version: "1.0.0"}, To: &imagev1.Ref{Version: "6.0.0"}}}, []string{"garrison up a@1.0.0 --on all"}},
		{"an upgrade to what runs", order{verb: topology.VerbUpgrade, agent: "a", on: on, record: record(0, 0)}, []task{{ServerId: "1", State: taskv1.State_STATE_SUCCEEDED, From: &imagev1.Ref{Version: "1.0.0"}, To: &imagev1.Ref{Version: "1.0.0"}}}, nil},
	} {
		if d := cmp.Diff(c.want, undoLines(c.o, c.tasks, names)); d != "" {
			t.Errorf("%s (-want +have):\n%s", c.name, d)
		}
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
