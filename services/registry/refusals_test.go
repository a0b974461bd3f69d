package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func installImage(agent, image string, on *intentv1.Selector) *intentv1.Intent {
	i := install(agent, on)
	i.GetInstall().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_ImageId{ImageId: image}}
	return i
}

func installVersion(agent, version string, on *intentv1.Selector) *intentv1.Intent {
	i := install(agent, on)
	i.GetInstall().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}}
	return i
}

func installFrom(agent, channel string, on *intentv1.Selector) *intentv1.Intent {
	i := install(agent, on)
	i.GetInstall().Image = &intentv1.ImageChoice{By: &intentv1.ImageChoice_Channel{Channel: channel}}
	return i
}

func refresh(on *intentv1.Selector) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{On: on}}}
}

// world creates servers, agents and images for the refusals.
func world(t *testing.T) (s *site, one, disabled, arm, oneshot string) {
	s = start(t)
	s.channel("release", true)
	s.channel("dev", false)
	s.agent("base")
	s.agent("web", "base")
	s.agent("cn-agent")
	s.image("base", "1.0.0", "release")
	s.image("web", "1.0.0", "release")
	s.image("cn-agent", "1.25.4", "release")
	s.image("cn-agent", "1.25.9", "dev")
	arm = s.image("base", "1.0.1", "dev",
		func(m *imagev1.Manifest) { m.Platform = &serverv1.Platform{Os: "linux", Arch: "arm64"} })
	oneshot = s.image("base", "1.0.2", "dev", func(m *imagev1.Manifest) { m.Kind = agentv1.Kind_KIND_ONESHOT })
	disabled = s.image("base", "1.0.3", "dev")
	s.append(fact(ledger.Image, disabled, &imagev1.Disabled{Reason: "leaks"}))
	one = s.server("one")
	s.server("two")
	s.accepted(topology.VerbInstall, install("cn-agent", on("one")))
	s.invite("later")
	return s, one, disabled, arm, oneshot
}

func TestEveryRefusalHasItsReasonInTheLedger(t *testing.T) {
	t.Parallel()
	s, one, disabled, arm, oneshot := world(t)
	s.beating(one, "boot")
	s.untilPresence(one, serverv1.Presence_PRESENCE_ONLINE)
	for _, c := range []struct {
		code, nearest string
		verb          string
		intent        *intentv1.Intent
	}{
		{"EMPTY_SELECTOR", "", "install", install("base", &intentv1.Selector{})},
		{"EMPTY_SELECTOR", "", "decommission", decommission("", false)},
		{"NO_SERVERS", "", "install", install("base", &intentv1.Selector{Labels: map[string]string{"rack": "z"}})},
		{"UNKNOWN_ENVIRONMENT", "", "install", install("base", &intentv1.Selector{Environment: "prod"})},
		{"UNKNOWN_SERVER", "one", "install", install("base", on("onee"))},
		{"UNKNOWN_SERVER", "two", "decommission", decommission("tvo", false)},
		{"AMBIGUOUS_SERVER", "", "install", install("base", on(one[:2]))},
		{"NOT_ALIVE", "", "install", install("base", on("later"))},
		{"NOT_ALIVE", "", "decommission", decommission("later", false)},
		{"UNKNOWN_AGENT", "base", "install", install("bse", on("one"))},
		{"NO_MATCH", "1.25.4", "install", installVersion("cn-agent", "1.25.9", on("two"))},
		{"NO_MATCH", "", "install", installImage("base", ident.New(), on("one"))},
		{"UNKNOWN_CHANNEL", "release", "install", installFrom("base", "releas", on("one"))},
		{"NOT_ACTIVE", "", "install", installImage("base", disabled, on("one"))},
		{"WRONG_PLATFORM", "", "install", installImage("base", arm, on("one"))},
		{"WRONG_KIND", "", "install", installImage("base", oneshot, on("one"))},
		{"MISSING_DEPENDENCY", "", "install", install("web", on("one"))},
		{"ALREADY_INSTALLED", "", "install", installFrom("cn-agent", "dev", on("one"))},
		{"NO_INSTANCES", "", "upgrade", upgrade("base", "1.0.0", on("one"))},
		{"NO_INSTANCES", "", "remove", remove("base", on("one", "two"))},
		{"SERVER_ONLINE", "", "decommission", decommission("one", true)},
		{"MALFORMED", "", "install", remove("base", on("one"))},
		{"MALFORMED", "", "refresh", &intentv1.Intent{}},
		{"EMPTY_SELECTOR", "", "refresh", refresh(nil)},
	} {
		t.Run(c.code+" "+c.verb, func(t *testing.T) {
			r := s.outcome(s.publish(c.verb, c.intent))
			if r.State != intentv1.State_STATE_REFUSED || r.Refusal.Code != c.code || r.Refusal.Nearest != c.nearest {
				t.Errorf("%s %v; want refused %s, nearest %q", r.State, r.Refusal, c.code, c.nearest)
			}
			if r.Refusal.GetComponent() != "registry" || r.Actor != "alice" {
				t.Errorf("refused by %q to %q", r.Refusal.GetComponent(), r.Actor)
			}
		})
	}
}

func TestNoMatchNamesWhatWasSearchedAndTheOtherChannel(t *testing.T) {
	t.Parallel()
	s, _, _, _, _ := world(t)
	r := s.outcome(s.publish("install", installVersion("cn-agent", "1.25.9", on("two"))))
	want := `no image of agent "cn-agent" version 1.25.9 for linux/amd64 in channel release ` +
		`(1 image searched, newest 1.25.4; 1.25.9 is in channel dev)`
	if have := r.Refusal.GetMessage(); len(have) < len(want) || have[:len(want)] != want {
		t.Errorf("have %s\nwant %s", have, want)
	}
	if want := "garrison image list cn-agent --channel dev"; r.Refusal.GetTry() != want {
		t.Errorf("try %q; want %q", r.Refusal.GetTry(), want)
	}
}

func TestAPoisonedIntentDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.server("one")
	garbage := ident.New()
	s.publishRaw(
		bus.Durable{Subject: topology.IntentSubject("install", "alice", garbage), Data: []byte{0xff, 0xff, 0xff}})
	s.publishRaw(bus.Durable{Subject: topology.IntentSubject("install", "alice", "not-an-id"), Data: []byte("?")})

	s.accepted(topology.VerbInstall, install("web", on("one")))

	if r := s.outcome(garbage); r.Refusal.GetCode() != "MALFORMED" || r.Intent != nil {
		t.Errorf("the intent that cannot be read became %v", r)
	}
	s.untilDeadLetters(topology.Intents, 1)
}
