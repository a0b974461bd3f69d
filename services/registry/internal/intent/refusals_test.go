package intent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
	"github.com/garrison-fleet/garrison/services/registry/internal/serve/recordstest"
)

// site has the servers one and two, and an invitation. Server one has cn-agent. The channel dev has
// images that no server may have.
func site(t *testing.T) *recordstest.World {
	t.Helper()
	w := recordstest.New(t)
	w.Agent("base")
	w.Agent("web", "base")
	w.Agent("cn-agent")
	for _, agent := range []string{"base", "web", "cn-agent"} {
		w.Image(agent, "1.0.0")
	}
	w.Image("cn-agent", "1.2.0", func(m *imagev1.Manifest) {
		m.UpgradesFrom = []string{"1.1.0"}
		m.Requires = []*imagev1.Requirement{{Agent: "base", Versions: ">=2.0.0"}}
	})
	w.Fact(ledger.Channel, "dev", &channelv1.Created{})
	inDev := func(version string, change func(*imagev1.Manifest)) {
		w.Image("base", version, change)
		w.Fact(ledger.Channel, "release", &channelv1.ImageRemoved{ImageId: "base-" + version})
		w.Fact(ledger.Channel, "dev", &channelv1.ImageAdded{ImageId: "base-" + version})
	}
	inDev("1.0.1", func(m *imagev1.Manifest) { m.Platform = platform("arm64") })
	inDev("1.0.2", func(m *imagev1.Manifest) { m.Kind = agentv1.Kind_KIND_ONESHOT })
	inDev("1.0.3", func(*imagev1.Manifest) {})
	w.Fact(ledger.Image, "base-1.0.3", &imagev1.Disabled{Reason: "leaks"})
	w.Server("one", "")
	w.Server("two", "")
	w.Fact(ledger.Server, ident.From("later"), &serverv1.Invited{Name: "later", Cell: "main"})
	in := recordstest.Install("cn-agent", recordstest.On("one"))
	in.GetInstall().Image = recordstest.Version("1.0.0")
	w.Accept("install", in)
	w.Work(nil)
	return w
}

func installed(agent string, by *intentv1.ImageChoice, on *intentv1.Selector) *intentv1.Intent {
	in := recordstest.Install(agent, on)
	in.GetInstall().Image = by
	return in
}

func byID(id string) *intentv1.ImageChoice {
	return &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: id}}
}

func byChannel(name string) *intentv1.ImageChoice {
	return &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: name}}
}

func removing(agent string, on *intentv1.Selector) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Remove{Remove: &intentv1.Remove{Agent: agent, On: on}}}
}

func decommission(q *intentv1.Decommission) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Decommission{Decommission: q}}
}

func refresh(q *intentv1.Refresh) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: q}}
}

// one and two select a server.
func one() *intentv1.Selector { return recordstest.On("one") }
func two() *intentv1.Selector { return recordstest.On("two") }

func with(in *intentv1.Intent, change func(*intentv1.Intent)) *intentv1.Intent {
	change(in)
	return in
}

func refusals() map[string]*intentv1.Intent {
	install, up := recordstest.Install, recordstest.Upgrade
	lost := &intentv1.Decommission{Server: "one", Lost: true}
	ahead := &intentv1.Refresh{On: one(), Ahead: &imagev1.Ahead{Image: &imagev1.Ref{Id: "x"}}}
	return map[string]*intentv1.Intent{
		"install EMPTY_SELECTOR":          install("base", &intentv1.Selector{}),
		"decommission EMPTY_SELECTOR":     decommission(&intentv1.Decommission{}),
		"refresh EMPTY_SELECTOR":          refresh(&intentv1.Refresh{}),
		"install NO_SERVERS":              install("base", &intentv1.Selector{Labels: values{"rack": "z"}}),
		"install UNKNOWN_ENVIRONMENT":     install("base", &intentv1.Selector{Environment: "prod"}),
		"install UNKNOWN_SERVER one":      install("base", recordstest.On("onee")),
		"decommission UNKNOWN_SERVER two": decommission(&intentv1.Decommission{Server: "tvo"}),
		"install NOT_ALIVE":               install("base", recordstest.On("later")),
		"decommission NOT_ALIVE":          decommission(&intentv1.Decommission{Server: "later"}),
		"install UNKNOWN_AGENT base":      install("bse", one()),
		"install NO_MATCH 1.0.0":          installed("cn-agent", recordstest.Version("1.3.0"), two()),
		"install NO_MATCH":                installed("base", byID(ident.From("none")), one()),
		"install UNKNOWN_CHANNEL release": installed("base", byChannel("releas"), one()),
		"install NOT_ACTIVE 1.0.0":        installed("base", byID("base-1.0.3"), one()),
		"install WRONG_PLATFORM 1.0.0":    installed("base", byID("base-1.0.1"), one()),
		"install WRONG_KIND":              installed("base", byID("base-1.0.2"), one()),
		"install MISSING_DEPENDENCY":      install("web", one()),
		"install ALREADY_INSTALLED":       installed("cn-agent", byID("cn-agent-1.2.0"), one()),
		"upgrade NO_INSTANCES":            up("base", "1.0.0", one()),
		"remove NO_INSTANCES":             removing("base", recordstest.On("one", "two")),
		"upgrade NO_UPGRADE_PATH":         up("cn-agent", "1.2.0", one()),
		"install REQUIREMENT_UNMET":       installed("cn-agent", byID("cn-agent-1.2.0"), two()),
		"decommission SERVER_ONLINE":      decommission(lost),
		"decommission MALFORMED":          decommission(&intentv1.Decommission{Server: "one", Force: true}),
		"install MALFORMED":               removing("base", one()),
		"refresh MALFORMED":               refresh(ahead), // only a rollout asks for that
		"upgrade MALFORMED":               {},
		"install MALFORMED by a false source": with(install("base", one()), func(in *intentv1.Intent) {
			in.Source = &intentv1.Source{Environment: "prod", Revision: 1}
		}),
		"install INVALID": with(install("base", one()), func(in *intentv1.Intent) { in.Note = "two\nlines" }),
	}
}

func TestEveryRefusalHasItsCodeAndWhatComesNearest(t *testing.T) {
	t.Parallel()
	w := site(t)
	for want, in := range refusals() {
		verb, rest, _ := strings.Cut(want, " ")
		wanted, nearest, _ := strings.Cut(rest, " ")
		d := intent.Decide(w.View, intent.Ask{ID: ident.New(), Actor: "alice", Verb: verb, At: w.At, Intent: in})
		if strings.HasPrefix(nearest, "by ") {
			nearest = ""
		}
		if r := d.Refusal; r.GetCode() != wanted || r.Nearest != nearest || r.Component != ledger.Registry {
			t.Errorf("%s: %v", want, r)
		}
		if names := len(d.Drafts); names != 1 || d.Drafts[0].Name() != "refused" {
			t.Errorf("%s: %d facts; want the refusal alone", want, names)
		}
	}
}

func TestWhatIsInstalledSuggestsTheUpgradeThatWasMeant(t *testing.T) {
	t.Parallel()
	w := site(t)
	in := installed("cn-agent", recordstest.Version("1.2.0"), one())
	d := intent.Plan(w.View, intent.Ask{ID: ident.New(), Actor: "alice", Verb: "install", At: w.At, Intent: in})
	want := "garrison up cn-agent@1.2.0 --on one"
	if have := d.Refusal.GetTry(); d.Refusal.GetCode() != code.AlreadyInstalled || have != want {
		t.Errorf("it suggests %q (%s); want %q", have, d.Refusal.GetCode(), want)
	}
}

// More than intent.MostAtOnce servers change only when the intent says so.
func TestAChangeOfManyServersIsRefusedUnlessItSaysAtOnce(t *testing.T) {
	t.Parallel()
	w := recordstest.New(t)
	w.Environment("prod")
	var names []string
	for n := range intent.MostAtOnce + 1 {
		names = append(names, fmt.Sprint("s", n))
		w.Server(names[n], "prod")
	}
	w.Agent("web")
	w.Image("web", "1.0.0")
	on := &intentv1.Selector{Environment: "prod"}
	install := recordstest.Install("web", on)
	for _, c := range []struct {
		verb, try string
		in        *intentv1.Intent
	}{
		{"install", "garrison rollout start --install web --on env=prod --canaries 3", install},
		{"configure", "--on env=prod", &intentv1.Intent{Ask: &intentv1.Intent_Configure{
			Configure: &intentv1.Configure{Agent: "web", On: on, Set: values{"a": "b"}},
		}}},
		{"remove", "", removing("web", on)},
		{
			"decommission", "garrison server decommission --on env=prod --on LABEL=VALUE, ",
			decommission(&intentv1.Decommission{On: on, Lost: true, Force: true}),
		},
	} {
		wide := proto.CloneOf(c.in)
		wide.AtOnce = false
		ask := intent.Ask{Actor: "alice", Verb: c.verb, At: w.At, Intent: wide}
		for what, r := range map[string]string{
			"decided": intent.Decide(w.View, ask).Refusal.GetCode(),
			"planned": intent.Plan(w.View, ask).Refusal.GetCode(),
		} {
			if r != code.TooWide {
				t.Errorf("%s, %s: %q", c.verb, what, r)
			}
		}
		if try := intent.Plan(w.View, ask).Refusal.GetTry(); !strings.Contains(try, c.try) {
			t.Errorf("%s suggests %q; want %q", c.verb, try, c.try)
		}
		fewer := proto.CloneOf(wide)
		if x := fewer.GetDecommission(); x != nil {
			x.On = recordstest.On(names[1:]...)
			ask.Intent = fewer
			if why := intent.Plan(w.View, ask).Refusal; why != nil {
				t.Errorf("%s of fewer: %v", c.verb, why)
			}
		}
		wide.AtOnce = true
		if d := w.Decide(c.verb, wide); d.Refusal != nil || int(d.Changed) != len(names) {
			t.Errorf("%s at once: %v, changed %d", c.verb, d.Refusal, d.Changed)
		}
	}
}

func TestAFreezeRefusesIntentsUnlessTheyOverrideIt(t *testing.T) {
	t.Parallel()
	w := site(t)
	w.Fact(ledger.Environment, "prod", &environmentv1.Created{Environment: &environmentv1.Environment{
		Freezes: []*environmentv1.Freeze{{Until: timestamppb.New(w.At.Add(time.Hour))}},
	}})
	w.Fact(ledger.Server, recordstest.ServerID("one"), &serverv1.Changed{Environment: "prod"})
	for verb, in := range map[string]*intentv1.Intent{
		"install": recordstest.Install("base", one()), "remove": removing("cn-agent", one()),
	} {
		agent := in.GetInstall().GetAgent() + in.GetRemove().GetAgent()
		try := "garrison rollout start --" + verb + " " + agent + " --on one --canaries 1, which waits; "
		if d := w.Decide(verb, in); d.Refusal.GetCode() != code.Closed || !strings.HasPrefix(d.Refusal.Try, try) {
			t.Errorf("%s: %v", verb, d.Refusal)
		}
		in.Override = true
		if d := w.Decide(verb, in); d.Refusal != nil || d.Changed != 1 {
			t.Errorf("%s with an override: %v", verb, d.Refusal)
		}
	}
}

func TestADryRunWritesItsAnswerAlone(t *testing.T) {
	t.Parallel()
	w := site(t)
	in := recordstest.Install("base", one())
	in.DryRun = true
	if d := w.Decide("install", in); d.Changed != 1 || len(d.Drafts) != 1 || d.Drafts[0].Name() != "accepted" {
		t.Errorf("changed %d, %d facts; want one that would change, and the answer alone", d.Changed, len(d.Drafts))
	}
}

// A failed removal would keep a dying server dying indefinitely, because it accepts no other intent.
func TestARepeatedDecommissionRetriesFailedRemovals(t *testing.T) {
	t.Parallel()
	w := site(t)
	again := decommission(&intentv1.Decommission{Server: "one"})
	w.Decide("decommission", again)
	for n, ends := range []proto.Message{&taskv1.Failed{Outcome: &taskv1.Outcome{Code: "BUSY"}}, nil} {
		if ends != nil {
			w.Task(w.Instance(recordstest.ServerID("one"), "cn-agent"), &taskv1.Assigned{}, &taskv1.Started{}, ends)
		}
		if d := w.Decide("decommission", again); d.Refusal != nil || int(d.Changed) != 1-n {
			t.Errorf("asked again %d times: %v, changed %d; want a change only after the failure", n+1, d.Refusal,
				d.Changed)
		}
	}
}

func TestAnInstancesOwnValuesChangeOnlyAtTheirRevision(t *testing.T) {
	t.Parallel()
	w := site(t)
	w.Accept("install", recordstest.Install("base", recordstest.On("one", "two")))
	at := func(revision uint64, level string, on *intentv1.Selector) intent.Decision {
		return w.Decide("configure", &intentv1.Intent{Ask: &intentv1.Intent_Configure{Configure: &intentv1.Configure{
			Agent: "base", Set: values{"level": level}, On: on, IfRevision: &revision,
		}}})
	}
	at(0, "info", one())
	if r := at(0, "debug", one()).Refusal; r.GetCode() != code.RevisionChanged ||
		!strings.Contains(r.GetMessage(), "changed them at") {
		t.Errorf("at an older revision: %v", r)
	}
	// Of two servers the one with another revision is left out, and named.
	d := at(0, "debug", recordstest.On("one", "two"))
	a, _ := d.Drafts[len(d.Drafts)-1].Body.(*intentv1.Accepted)
	if a.GetChanged() != 1 || a.GetLeftOut() != 1 || a.Reasons[0].Code != code.RevisionChanged {
		t.Errorf("at the revision of one of two: %v", a)
	}
	own := w.Instance(recordstest.ServerID("one"), "base").OwnChange
	if d := at(own.GetRevision(), "warn", one()); d.Refusal != nil || own.GetChangedBy() != "alice" {
		t.Errorf("at its revision, of %v: %v", own, d.Refusal)
	}
}
