package systemd

import (
	"testing"

	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

func TestANameIdentifiesTheRootAndTheAgent(t *testing.T) {
	one, two := Prefix("/var/lib/garrison"), Prefix("/var/lib/garrison2")
	slot := func(agent, record string) supervise.Spec {
		const id = "2cf4a78c-9a1d-5779-8431-7be816557bde"
		return supervise.Spec{Agent: agent, Image: id, Record: "/run/" + record + id + ".json"}
	}
	for _, s := range []supervise.Spec{
		slot("a", "process-"), slot("a-b", "process-"), slot("a-2cf4a78c9a1d", "process-"), slot("a", "check-"),
	} {
		name := nameOf(one, s)
		if agent, _, ok := slotOf(one, name); !ok || agent != s.Agent {
			t.Errorf("%s is of %q, want %q", name, agent, s.Agent)
		}
		if _, _, ok := slotOf(two, name); ok {
			t.Errorf("%s is of another root too", name)
		}
	}
	if nameOf(one, slot("a", "process-")) == nameOf(one, slot("a", "check-")) {
		t.Error("a check has the name of the agent's own process")
	}
	for _, name := range []string{
		one + "x.service", one + "-2cf4a78c9a1d.service", one + "a-2cf4a78c9a1d.slice", "garrison-executor.service",
	} {
		if agent, _, ok := slotOf(one, name); ok {
			t.Errorf("%s is of %q", name, agent)
		}
	}
}

func TestAnObjectPathEscapesWhatSystemdEscapes(t *testing.T) {
	const want = "/org/freedesktop/systemd1/unit/garrison_2d1a_2ea_2dB_2eservice"
	if got := objectPath("garrison-1a.a-B.service"); string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
