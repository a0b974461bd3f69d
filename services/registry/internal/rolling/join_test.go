package rolling_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	channelv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/channel/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/rolling"
)

// newFleet is a world in which web has two versions, and a first server runs the older one.
func newFleet() *world {
	w := newWorld()
	w.agent("web", 0)
	w.image("web 1.0.0", "")
	w.image("web 1.1.0", "")
	w.runs("web 1.0.0")
	return w
}

// comes makes a server that is online; what follows is about it.
func (w *world) comes(name string) {
	w.server = name
	w.apply(ledger.Server, name, &serverv1.Invited{Name: name, Cell: "main"})
	w.apply(ledger.Server, name, &serverv1.Enrolled{Sysinfo: &serverv1.Sysinfo{Platform: linux}})
	w.apply(ledger.Server, name, &serverv1.Online{})
}

// start records the plan of a rollout.
func (w *world) start(t *testing.T, id string, steps ...string) {
	t.Helper()
	d := rolling.Decide(w, ask(id, steps...))
	if d.Refusal != nil {
		t.Fatalf("rollout %s is refused: %v", id, d.Refusal)
	}
	for _, part := range d.Parts {
		w.apply(ledger.Rollout, id, part.Body)
	}
}

// joins returns the servers that join a rollout now.
func (w *world) joins(id string, steps ...string) (names []string) {
	r, _ := w.Rollout(id)
	for _, t := range rolling.Join(w, r, ask(id, steps...)).GetTargets() {
		names = append(names, t.ServerId)
	}
	return names
}

func TestAServerJoinsOnlyForWhatThePlanWouldHaveBroughtToIt(t *testing.T) {
	for name, c := range map[string]struct {
		step          string
		before, since func(*world)
		joins         bool
	}{
		"it runs the older one": {
			step: "up web", since: func(w *world) { w.comes("s9"); w.runs("web 1.0.0") }, joins: true,
		},
		"it ran a newer one": {step: "up web", before: func(w *world) { w.comes("s9"); w.runs("web 1.2.0-rc") }},
		"a newer one came by hand": {
			step: "up web", since: func(w *world) { w.comes("s9"); w.runs("web 1.2.0-rc") },
		},
		"it runs a newer one, and the older one is asked for": {
			step: "up web 1.1.0", since: func(w *world) { w.comes("s9"); w.runs("web 1.2.0-rc") }, joins: true,
		},
		"the new one failed there": {step: "up web", before: func(w *world) {
			w.comes("s9")
			w.runs("web 1.0.0")
			w.failsThere("web 1.1.0")
		}},
		"it lacks the agent": {step: "install web", since: func(w *world) { w.comes("s9") }, joins: true},
		"its agent was removed since": {
			step:   "install web",
			before: func(w *world) { w.comes("s9"); w.runs("web 1.1.0") },
			since:  func(w *world) { w.apply(ledger.Instance, "s9.web", &instancev1.Gone{InstanceId: "web"}) },
		},
	} {
		w := newFleet()
		if strings.HasPrefix(c.step, "install") {
			w.comes("s0") // which the plan brings the agent to
		}
		if c.before != nil {
			c.before(w)
		}
		w.start(t, "r", c.step)
		if c.since != nil {
			c.since(w)
		}
		if have := w.joins("r", c.step); (len(have) == 1 && have[0] == "s9") != c.joins || len(have) > 1 {
			t.Errorf("%s: %v join; want it to: %v", name, have, c.joins)
		}
	}
}

// failsThere lets a change of the server to an image fail, after which it is as it was.
func (w *world) failsThere(name string) {
	agent, v, _ := strings.Cut(name, " ")
	ref, old := &imagev1.Ref{Id: name, Version: v}, &imagev1.Ref{Id: agent + " 1.0.0", Version: "1.0.0"}
	want := &instancev1.Wanted{InstanceId: agent, Generation: 2, Image: ref}
	w.apply(ledger.Instance, ledger.Key(w.server, agent), want)
	for _, body := range []proto.Message{
		&taskv1.Queued{
			ServerId: w.server, Agent: agent, InstanceId: agent, Generation: 2, Attempt: 1, From: old, To: ref,
			Verb: taskv1.Verb_VERB_UPGRADE,
		},
		&taskv1.Assigned{}, &taskv1.Started{}, &taskv1.Undone{Outcome: &taskv1.Outcome{Code: "PROOF_FAILED"}},
	} {
		w.apply(ledger.Task, "t"+w.server, body)
	}
	w.apply(ledger.Instance, ledger.Key(w.server, agent), &instancev1.Observed{
		InstanceId: agent, Generation: 2, Image: old, Health: instancev1.Health_HEALTH_GOOD,
	})
}

func TestNoServerJoinsWhileThePlanOfAnotherRolloutIsBeingRecorded(t *testing.T) {
	w := newFleet()
	w.start(t, "r", "up web")
	w.comes("s9")
	w.runs("web 1.0.0")
	w.apply(ledger.Rollout, "other", &rolloutv1.Planned{
		Waves: []uint32{2}, Part: 1, Parts: 2, Strategy: &rolloutv1.Strategy{},
	})
	if have := w.joins("r", "up web"); len(have) != 0 {
		t.Errorf("%v join; the rest of the plan may change them", have)
	}
	w.apply(ledger.Rollout, "other", &rolloutv1.Planned{Part: 2, Parts: 2})
	if have := w.joins("r", "up web"); len(have) != 1 {
		t.Errorf("once it is recorded %v join; want the server", have)
	}
}

func TestNoServerJoinsARolloutOnceALaterOneChangedItsServers(t *testing.T) {
	w := newFleet()
	w.start(t, "r", "up web 1.1.0")
	first := w.server
	w.comes("s9")
	w.runs("web 1.0.0")
	later := &rolloutv1.Planned{
		Waves: []uint32{1}, Part: 1, Parts: 1, Agents: []string{"web"}, Strategy: &rolloutv1.Strategy{Emergency: true},
		Targets: []*rolloutv1.Target{{
			ServerId: "s8", Wave: 1, Changes: []*rolloutv1.Change{{Agent: "web", To: &imagev1.Ref{Id: "web 1.2.0"}}},
		}},
	}
	w.apply(ledger.Rollout, "beside", later)
	if have := w.joins("r", "up web 1.1.0"); len(have) != 1 {
		t.Errorf("beside one of other servers %v join; want the server", have)
	}
	later = proto.CloneOf(later)
	later.Targets[0].ServerId = first
	w.apply(ledger.Rollout, "later", later)
	if have := w.joins("r", "up web 1.1.0"); len(have) != 0 {
		t.Errorf("after a later rollout %v join", have)
	}
	w.apply(ledger.Rollout, "later", &rolloutv1.Aborted{})
	if have := w.joins("r", "up web 1.1.0"); len(have) != 1 {
		t.Errorf("after it was aborted %v join; want the server", have)
	}
}

func TestAsManyServersJoinAtOnceAsAFactHolds(t *testing.T) {
	const all = 300
	w := newFleet()
	long := strings.Repeat("x", 4000) // of 300 such targets, a fact holds about the half
	m := &imagev1.Manifest{Id: long, Agent: "web", Version: "1.3.0", Kind: agentv1.Kind_KIND_DAEMON, Platform: linux}
	w.apply(ledger.Image, long, &imagev1.Created{Manifest: m})
	w.apply(ledger.Image, long, &imagev1.Filled{})
	w.apply(ledger.Image, long, &imagev1.Activated{})
	w.apply(ledger.Channel, "release", &channelv1.ImageAdded{ImageId: long})
	w.start(t, "r", "up web 1.3.0")
	for n := range all {
		w.comes(fmt.Sprintf("t%d", n))
		w.runs("web 1.0.0")
	}
	joined := 0
	for turn := 1; joined < all; turn++ {
		r, _ := w.Rollout("r")
		body := rolling.Join(w, r, ask("r", "up web 1.3.0"))
		if size := proto.Size(body); len(body.GetTargets()) == 0 || size > 900<<10 {
			t.Fatalf("turn %d: %d servers join in %d bytes", turn, len(body.GetTargets()), size)
		}
		joined += len(body.Targets)
		w.apply(ledger.Rollout, "r", body)
	}
	if have := w.joins("r", "up web 1.3.0"); joined != all || len(have) != 0 {
		t.Errorf("%d joined; then %d more would", joined, len(have))
	}
}
