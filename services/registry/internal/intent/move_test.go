package intent_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/code"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

var everywhere = &intentv1.Selector{All: true}

func platform(arch string) *serverv1.Platform { return &serverv1.Platform{Os: "linux", Arch: arch} }

// image adds an active image of the agent web to the default channel.
func (w *world) image(id, version string, change ...func(*imagev1.Manifest)) {
	m := &imagev1.Manifest{
		Id:       id,
		Agent:    "web",
		Version:  version,
		Kind:     agentv1.Kind_KIND_DAEMON,
		Platform: platform("amd64"),
	}
	for _, f := range change {
		f(m)
	}
	w.apply(ledger.Image, id, &imagev1.Created{Manifest: m})
	w.apply(ledger.Image, id, &imagev1.Filled{})
	w.apply(ledger.Image, id, &imagev1.Activated{})
	w.promote(id)
}

// promote adds an image to the default channel, as the last one.
func (w *world) promote(id string) {
	w.apply(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: id})
}

func upTo(version string) *intentv1.Intent {
	i := upgradeAll()
	i.GetUpgrade().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	return i
}

// running is servers on which version 1.0.0 runs.
func running(t *testing.T, n int) *world {
	t.Helper()
	w := fleet(n)
	w.decide("install", installAll().Intent)
	for s := range n {
		w.task(w.on(s), &taskv1.Succeeded{})
	}
	return w
}

// notReady ends a task by what it brought.
var notReady = &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.NotReady}}

// undone is servers whose upgrade from 1.0.0 to 2.0.0 did not succeed.
func undone(t *testing.T, n int, end proto.Message) *world {
	t.Helper()
	w := running(t, n)
	w.image("two", "2.0.0")
	w.decide("upgrade", upgradeAll())
	for s := range n {
		w.task(w.on(s), end)
	}
	return w
}

// plan returns what an intent would do.
func (w *world) plan(i *intentv1.Intent) *intentv1.Plan {
	return intent.Plan(w, intent.Ask{Intent: i}).Plan
}

func TestConfigureKeepsWhatRuns(t *testing.T) {
	for name, end := range map[string]proto.Message{
		"undone": notReady, "cancelled": &taskv1.Cancelled{}, "expired": &taskv1.Expired{},
	} {
		t.Run(name, func(t *testing.T) {
			w := undone(t, 1, end)
			if name != "undone" { // the server reports its agents
				w.apply(ledger.Instance, ledger.Key(w.on(0).ServerId, "web"), &instancev1.Observed{
					InstanceId: w.on(
						0,
					).Id, Image: &imagev1.Ref{Id: "image", Version: "1.0.0"}, Health: instancev1.Health_HEALTH_GOOD,
				})
			}
			w.decide("configure", configure(values{"a": "b"}))
			if i := w.on(0); i.Wanted.GetVersion() != "1.0.0" || i.Configuration.GetOwn()["a"] != "b" {
				t.Errorf("wanted at %s with %v; want 1.0.0 with a=b", i.Wanted.GetVersion(), i.Configuration.GetOwn())
			}
		})
	}
}

func TestConfigureBringsTheWantedVersionOnRequest(t *testing.T) {
	w := undone(t, 1, notReady)
	ask := configure(values{"a": "b"})
	ask.GetConfigure().BringWanted = true
	same := configure(nil)
	same.GetConfigure().BringWanted = true
	if d := w.decide("configure", same); d.Refusal.GetCode() != code.FailedBefore {
		t.Errorf("as it failed, without a reason: %v; want %s", d.Refusal, code.FailedBefore)
	}
	w.decide("configure", ask) // with another configuration
	if i := w.on(0); i.Wanted.GetVersion() != "2.0.0" {
		t.Errorf("wanted at %s; want 2.0.0", i.Wanted.GetVersion())
	}
}

func TestConfigureDoesNotRetryAFailedInstall(t *testing.T) {
	w := fleet(1)
	w.decide("install", installAll().Intent)
	w.task(w.on(0), notReady)
	d := w.decide("configure", configure(values{"a": "b"}))
	if d.Refusal.GetCode() != "NOT_PLACED" || !strings.Contains(d.Refusal.GetMessage(), "garrison agent update") {
		t.Errorf("%v; want NOT_PLACED, and how else the value is set", d.Refusal)
	}
}

// A value or a label that a first installation lacked ends it before anything runs. What is set then brings it.
func TestAFirstInstallationThatLackedAValueComesOnceItIsSet(t *testing.T) {
	for name, ask := range map[string]*intentv1.Intent{
		"a value": configure(values{"a": "b"}), "a label": upTo("1.0.0"), "a label, by install": installAll().Intent,
	} {
		w := fleet(1)
		w.decide("install", installAll().Intent)
		w.task(w.on(0), &taskv1.Undone{Outcome: &taskv1.Outcome{
			Code: code.BadTemplate, FailedStep: taskv1.Step_STEP_REHEARSE,
		}})
		d := w.decide(intent.Verb(ask), ask)
		if d.Refusal != nil || d.Changed != 1 || w.on(0).Wanted.GetVersion() != "1.0.0" {
			t.Errorf("%s: %v, %d changed, %v wanted; want 1.0.0 to be tried again", name, d.Refusal, d.Changed,
				w.on(0).Wanted)
		}
	}
}

// because returns an intent with the reason of an operator.
func because(in *intentv1.Intent) *intentv1.Intent {
	in.Note = "its port is free now"
	return in
}

// A change that a server could not begin to judge is no failure of what it was to bring.
func TestAVersionThatCouldNotBeFetchedIsTriedAgainWithoutAReason(t *testing.T) {
	for _, c := range []struct {
		name string
		end  proto.Message
		want string
	}{
		{"not fetched", &taskv1.Failed{Outcome: &taskv1.Outcome{Code: code.NeedsBus}}, ""},
		{"cancelled", &taskv1.Cancelled{}, ""},
		{"not started", &taskv1.Failed{Outcome: &taskv1.Outcome{Code: code.NotStarted}}, code.FailedBefore},
		{"undone", &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.NotReady}}, code.FailedBefore},
	} {
		w := undone(t, 1, c.end)
		if d := w.decide("upgrade", upTo("2.0.0")); d.Refusal.GetCode() != c.want {
			t.Errorf("%s: %v; want %q", c.name, d.Refusal, c.want)
		}
	}
}

// A server whose first install failed lists nothing, which looks like an agent that was lost.
func TestNoRepairBringsWhatFailed(t *testing.T) {
	w := fleet(1)
	w.decide("install", installAll().Intent)
	i := w.on(0)
	w.task(i, &taskv1.Undone{Outcome: &taskv1.Outcome{Code: code.NotReady}})
	w.apply(ledger.Instance, ledger.Key(i.ServerId, "web"), &instancev1.Observed{
		InstanceId: i.Id, Generation: i.Generation,
	})
	ask := configure(nil)
	ask.GetConfigure().Repair = true
	if d := w.decide("configure", ask); d.Changed > 0 {
		t.Errorf("a repair changes %d servers; want none", d.Changed)
	}
}

// What failed is remembered beyond the intents that come after it.
func TestAFailedVersionIsRetriedOnlyWhenItIsNamed(t *testing.T) {
	w := undone(t, 2, notReady)
	for _, c := range []struct {
		name, verb string
		intent     *intentv1.Intent
		code       string // of the refusal; empty when it is accepted
		version    string // that is wanted after it
	}{
		{"up without a version", "upgrade", upgradeAll(), "FAILED_BEFORE", "2.0.0"},
		{"install without a version", "install", installAll().Intent, "FAILED_BEFORE", "2.0.0"},
		{"configure settles for what runs", "configure", configure(values{"a": "b"}), "", "1.0.0"},
		{"up without a version, after that", "upgrade", upgradeAll(), "FAILED_BEFORE", "1.0.0"},
		{"up that names it", "upgrade", upTo("2.0.0"), "FAILED_BEFORE", "1.0.0"},
		{"up that names it and says why", "upgrade", because(upTo("2.0.0")), "", "2.0.0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := w.decide(c.verb, c.intent)
			if d.Refusal.GetCode() != c.code || w.on(0).Wanted.GetVersion() != c.version {
				t.Errorf("refusal %v, wanted at %s; want %q, %s", d.Refusal, w.on(0).Wanted.GetVersion(), c.code,
					c.version)
			}
			if c.name == "configure settles for what runs" {
				for n := range 2 {
					w.task(w.on(n), &taskv1.Succeeded{})
				}
			}
		})
	}
	for n := range 2 {
		w.task(w.on(n), &taskv1.Succeeded{})
	}
	if f := w.on(0).Failed; f != nil {
		t.Errorf("it came, and %v still counts as failed", f)
	}
}

func TestAnUpWithoutAVersionNeverDowngrades(t *testing.T) {
	w := running(t, 2)
	w.image("old", "0.9.0")
	w.image("two", "2.0.0")
	w.decide("upgrade", upTo("2.0.0"))
	for n := range 2 {
		w.task(w.on(n), &taskv1.Succeeded{})
	}
	w.apply(ledger.Image, "two", &imagev1.Disabled{Reason: "leaks"})
	w.promote("old")

	p := w.plan(upgradeAll())

	if p.Changed != 0 || p.Already != 2 || len(p.Reasons) != 1 || p.Reasons[0].Code != "NEWER_RUNS" ||
		p.Refusal != nil {
		t.Errorf("%v; want two that are already so, with NEWER_RUNS", p)
	}
	w.decide("upgrade", upgradeAll())
	if v := w.on(0).Wanted.GetVersion(); v != "2.0.0" {
		t.Errorf("wanted at %s", v)
	}
	named := intent.Plan(w, intent.Ask{Intent: upTo("0.9.0")})
	named.Targets("", nil, func(x *intentv1.Target) bool {
		if x.Move != intentv1.Move_MOVE_DOWNGRADE || x.From.GetVersion() != "2.0.0" || x.To.GetVersion() != "0.9.0" {
			t.Errorf("%v; want a downgrade from 2.0.0 to 0.9.0", x)
		}
		return true
	})
	if named.Changed != 2 {
		t.Errorf("a version that is named changes %d; want 2", named.Changed)
	}
}

func TestAnImageChangesNoServerByItself(t *testing.T) {
	w := running(t, 1)
	before := proto.CloneOf(w.on(0))
	w.image("two", "2.0.0") // created, activated and promoted
	w.apply(ledger.Image, "image", &imagev1.Disabled{Reason: "old"})
	w.apply(ledger.Image, "image", &imagev1.Enabled{})
	w.promote("image")
	if !proto.Equal(before, w.on(0)) {
		t.Errorf("the instance became %v; want it as it was, %v", w.on(0), before)
	}
}

func TestAnInstallUpgradesWhatIsThereIfItSaysSo(t *testing.T) {
	w := fleet(3)
	first := installAll().Intent
	first.GetInstall().On = &intentv1.Selector{Servers: []string{ident.From("server", "0")}}
	w.decide("install", first)
	w.task(w.on(0), &taskv1.Succeeded{})
	w.image("two", "2.0.0")
	ask := installAll().Intent
	ask.GetInstall().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: "2.0.0"}}
	if p := w.plan(ask); p.GetChanged() != 2 || p.GetPassedOver() != 1 {
		t.Errorf("alone it changes %d servers and passes over %d; want 2 and 1", p.GetChanged(), p.GetPassedOver())
	}
	ask.GetInstall().AlsoUpgrade = true
	if d := w.decide("install", ask); counted(d)[0] != 3 {
		t.Fatalf("it changes %d servers (%v); want 3", counted(d)[0], d.Refusal)
	}
	for n := range 3 {
		if i := w.on(n); i.GetWanted().GetVersion() != "2.0.0" {
			t.Errorf("server %d wants %v", n, i.GetWanted())
		}
		w.task(w.on(n), &taskv1.Succeeded{})
	}
	if p := w.plan(ask); p.GetChanged() != 0 || p.GetAlready() != 3 {
		t.Errorf("again it changes %d servers; %d are as asked", p.GetChanged(), p.GetAlready())
	}
}
