package intent_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

func TestAPlanIsDoneAsShownAlthoughANewerImageExists(t *testing.T) {
	w := running(t, 3)
	w.image("two", "2.0.0")
	p := w.plan(upgradeAll())
	w.image("three", "3.0.0")

	d := w.decide("upgrade", p.Intent)

	if d.Refusal != nil || d.Changed != 3 {
		t.Fatalf("%v, changed %d", d.Refusal, d.Changed)
	}
	if v := w.on(0).Wanted.GetVersion(); v != "2.0.0" {
		t.Errorf("wanted at %s; want 2.0.0, which the plan showed", v)
	}
	if a := d.Drafts[len(d.Drafts)-1].Body.(*intentv1.Accepted); !cmp.Equal(a.TargetsSha256, p.TargetsSha256) {
		t.Error("the answer's targets are not the plan's")
	}
}

func TestAPlanNamesTheServersThatItChangesLater(t *testing.T) {
	w := fleet(12)
	for n := range 11 {
		w.apply(ledger.Server, ident.From("server", fmt.Sprint(n)), &serverv1.Offline{})
	}
	w.apply(ledger.Server, ident.From("server", "11"), &serverv1.Online{})
	p := w.plan(installAll().Intent)
	if p.Changed != 12 || p.Offline != 11 || len(p.OfflineServers) != 10 || slices.Contains(p.OfflineServers, "s11") {
		t.Errorf("of %d changes %d wait for servers that are offline, named %v", p.Changed, p.Offline, p.OfflineServers)
	}
}

func TestAPlanThatNoLongerHoldsIsRefused(t *testing.T) {
	for name, change := range map[string]func(*world){
		"the image is disabled": func(w *world) { w.apply(ledger.Image, "two", &imagev1.Disabled{Reason: "leaks"}) },
		"a server got the agent": func(w *world) {
			old := installAll().Intent
			old.GetInstall().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: "1.0.0"}}
			w.decide("install", old)
		},
		"the agent left a server": func(w *world) {
			w.apply(
				ledger.Instance, ledger.Key(w.on(1).ServerId, "web"),
				&instancev1.Unwanted{InstanceId: w.on(1).Id, Generation: 9},
			)
		},
		"metadata was recorded": func(w *world) { w.agentValues(values{"a": "b"}) },
	} {
		t.Run(name, func(t *testing.T) {
			w := running(t, 2)
			id := ident.From("server", "late")
			w.apply(ledger.Server, id, &serverv1.Invited{Name: "late", Cell: "main"})
			w.apply(ledger.Server, id, &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{Platform: platform("amd64")}})
			w.image("two", "2.0.0")
			p := w.plan(upgradeAll())
			change(w)
			if d := w.decide("upgrade", p.Intent); d.Refusal.GetCode() != "PLAN_STALE" || len(d.Drafts) != 1 {
				t.Errorf("%v; want PLAN_STALE", d.Refusal)
			}
		})
	}
}

// An interrupted intent changed some of the servers in its plan, so the plan cannot hold.
func TestAnInterruptedPlannedIntentIsCompleted(t *testing.T) {
	w := fleet(5)
	ask := installAll()
	ask.Intent = w.plan(ask.Intent).Intent
	for _, d := range intent.Decide(w, ask).Drafts[:2] {
		w.apply(d.Noun, d.Key, d.Body)
	}
	ask.Again = true
	if d := intent.Decide(w, ask); d.Refusal != nil || d.Changed != 5 || len(d.Drafts) != 3+1 {
		t.Errorf("%v, changed %d, %d drafts", d.Refusal, d.Changed, len(d.Drafts))
	}
}

// mixed is five servers: two as usual, one of another platform, one with an executor that is
// too old, one that is dying.
func mixed(t *testing.T) *world {
	t.Helper()
	w := fleet(5)
	w.image("two", "2.0.0", func(m *imagev1.Manifest) { m.ExecutorVersion = "1.5.0" })
	sysinfo := func(n, arch, executor string) {
		w.apply(ledger.Server, ident.From("server", n), &serverv1.SysinfoSeen{
			Sysinfo: &serverv1.Sysinfo{Platform: platform(arch), ExecutorVersion: executor},
		})
	}
	sysinfo("0", "amd64", "1.5.0")
	sysinfo("1", "amd64", "v1.6.1")
	sysinfo("2", "arm64", "1.5.0")
	sysinfo("3", "amd64", "1.4.9")
	w.apply(ledger.Server, ident.From("server", "4"), &serverv1.Dying{})
	return w
}

func TestServersThatCannotBeChangedAreLeftOutAndNamed(t *testing.T) {
	w := mixed(t)
	ask := installAll().Intent
	ask.GetInstall().On = &intentv1.Selector{Servers: []string{"s0", "s1", "s2", "s3", "s4"}}
	p := intent.Plan(w, intent.Ask{Intent: ask})
	if p.Changed != 2 || p.LeftOut != 3 || p.Refusal != nil {
		t.Errorf("changes %d, leaves out %d, %v; want 2 and 3", p.Changed, p.LeftOut, p.Refusal)
	}
	codes := map[string]string{}
	p.Targets("", []intentv1.Effect{intentv1.Effect_EFFECT_LEFT_OUT}, func(x *intentv1.Target) bool {
		codes[x.ServerName] = x.Reason.Code
		return true
	})
	want := map[string]string{"s2": "WRONG_PLATFORM", "s3": "EXECUTOR_TOO_OLD", "s4": "NOT_ALIVE"}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Error(diff)
	}
	strict := proto.CloneOf(ask)
	strict.Strict = true
	if d := w.decide("install", strict); d.Refusal.GetCode() != "LEFT_OUT" || len(d.Drafts) != 1 {
		t.Errorf("strict: %v; want a refusal as a whole", d.Refusal)
	}
	if d := w.decide("install", ask); d.Changed != 2 || d.Refusal != nil {
		t.Errorf("changed %d, %v", d.Changed, d.Refusal)
	}
}

func TestAnIntentWithNothingLeftIsRefusedWithTheReasons(t *testing.T) {
	w := mixed(t)
	ask := installAll().Intent
	ask.GetInstall().On = &intentv1.Selector{Servers: []string{"s2", "s3", "s4"}}
	d := w.decide("install", ask)
	for _, code := range []string{"1 WRONG_PLATFORM", "1 EXECUTOR_TOO_OLD", "1 NOT_ALIVE"} {
		if !strings.Contains(d.Refusal.GetMessage(), code) {
			t.Errorf("%v lacks %q", d.Refusal, code)
		}
	}
}

func TestTheNeedsOfAnImageAreCheckedBeforeItIsWanted(t *testing.T) {
	for want, change := range map[string]func(*imagev1.Manifest){
		"EXECUTOR_TOO_OLD": func(m *imagev1.Manifest) { m.ExecutorVersion = "9.0.0" },
		"CONFLICTS":        func(m *imagev1.Manifest) { m.Conflicts = []string{"db"} },
		"NO_SPACE":         func(m *imagev1.Manifest) { m.Blob = &imagev1.Blob{UnpackedSizeBytes: 1 << 40} },
	} {
		t.Run(want, func(t *testing.T) {
			w := fleet(1)
			s := ident.From("server", "0")
			w.apply(ledger.Server, s, &serverv1.SysinfoSeen{Sysinfo: &serverv1.Sysinfo{
				Platform: platform(
					"amd64"), ExecutorVersion: "1.0.0", Disks: []*serverv1.Disk{{Mount: "/", SizeBytes: 1 << 30}},
			}})
			w.apply(ledger.Instance, ledger.Key(s, "db"),
				&instancev1.Wanted{InstanceId: "db", Generation: 1, Image: &imagev1.Ref{Id: "x"}})
			w.image("two", "2.0.0", change)
			if d := w.decide("install", installAll().Intent); d.Refusal.GetCode() != want {
				t.Errorf("%v; want %s", d.Refusal, want)
			}
		})
	}
}

func TestAPlanForEveryAgentHoldsOnePlanForEach(t *testing.T) {
	w := running(t, 2)
	all := &intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{On: everywhere}}}
	intents, refusal := intent.EveryAgent(w, all, nil)
	if refusal != nil || len(intents) != 1 || intents[0].GetUpgrade().Agent != "web" {
		t.Errorf("%v, %v; want one for web", intents, refusal)
	}
	if intents, _ := intent.EveryAgent(w, all, []string{"web"}); len(intents) != 0 {
		t.Errorf("%v; want none without web", intents)
	}
	if _, refusal := intent.EveryAgent(w, all, []string{"wev"}); refusal.GetCode() != "UNKNOWN_AGENT" {
		t.Errorf("%v; want UNKNOWN_AGENT", refusal)
	}
}
