package view

import (
	"bytes"
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"

	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

func canonical(t *rapid.T, v *View) []byte {
	b, err := fold.CanonicalOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestASnapshotAnywhereMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			s.step()
		}
		at := rapid.IntRange(0, len(s.facts)).Draw(t, "split")
		first, second := newStoryView(), newStoryView()
		for _, f := range s.facts[:at] {
			first.Apply(cloned(f))
		}
		if err := fold.LoadCanonical(second, canonical(t, first)); err != nil {
			t.Fatal(err)
		}
		if a, b := whole(first), whole(second); a != b {
			t.Fatalf("the indexes differ after loading at %d:\n%s\n%s", at, a, b)
		}
		for _, f := range s.facts[at:] {
			second.Apply(cloned(f))
		}
		if !bytes.Equal(canonical(t, s.view), canonical(t, second)) {
			t.Fatalf("the view differs from one that was loaded at %d of %d", at, len(s.facts))
		}
		if a, b := whole(s.view), whole(second); a != b {
			t.Fatalf("the indexes differ from a view loaded at %d:\n%s\n%s", at, a, b)
		}
	})
}

func cloned(f ledger.Fact) ledger.Fact {
	f.Body = proto.Clone(f.Body)
	return f
}

func TestWhatMustAlwaysHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t)
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			facts, before := len(s.facts), contents(s.view)
			s.step()
			checkLimits(t, s.view)
			checkGenerations(t, s, facts, before)
		}
	})
}

// checkLimits fails on two tasks of one agent on one server, and on too many tasks.
func checkLimits(t *rapid.T, v *View) {
	n, waiting, seen := 0, 0, map[string]string{}
	succeeded, otherwise := 0, 0
	for id, r := range v.tasks.All() {
		switch {
		case r.Task.State == taskv1.State_STATE_SUCCEEDED:
			succeeded++
		case task.Ended(r.Task.State):
			otherwise++
		}
		if !task.UnderWay(r.Task.State) {
			continue
		}
		if s, _ := v.servers.Get(r.Task.ServerId); r.Task.State == taskv1.State_STATE_ASSIGNED &&
			s.GetPresence() == serverv1.Presence_PRESENCE_OFFLINE {
			waiting++
		} else {
			n++
		}
		key := r.Task.ServerId + "/" + r.Task.Agent
		if other, ok := seen[key]; ok {
			t.Fatalf("tasks %s and %s of %s are under way at once", id, other, key)
		}
		seen[key] = id
	}
	if n+waiting > 2*limit || n != v.Queue.UnderWay() || waiting != v.Queue.Waiting() {
		t.Fatalf("%d tasks are under way and %d wait for their servers, counted as %d and %d; the limit is %d",
			n, waiting, v.Queue.UnderWay(), v.Queue.Waiting(), limit)
	}
	if max(succeeded, otherwise) > keepInStories {
		t.Fatalf("%d and %d ended tasks are kept, want %d of each at most", succeeded, otherwise, keepInStories)
	}
}

// contents returns each server's document without its generation.
func contents(v *View) map[string]string {
	out := map[string]string{}
	for server := range v.servers.All() {
		if d, ok := v.Rows.Document(server); ok {
			d.Generation = 0
			data, _ := proto.MarshalOptions{Deterministic: true}.Marshal(d)
			out[server] = string(data)
		}
	}
	return out
}

// checkGenerations checks that a changed document has a newer generation, and that no document has
// both an entry and a removal of one agent.
func checkGenerations(t *rapid.T, s *story, facts int, before map[string]string) {
	for server, now := range contents(s.view) {
		d, _ := s.view.Rows.Document(server)
		if now != before[server] && d.Generation <= uint64(facts) {
			t.Fatalf("the document of %s changed after fact %d, but its generation is %d", server, facts, d.Generation)
		}
		agents := map[string]bool{}
		for _, e := range d.Entries {
			agents[e.Agent] = true
		}
		for _, r := range d.Removals {
			if agents[r.Agent] {
				t.Fatalf("the document of %s has an entry and a removal for %s", server, r.Agent)
			}
		}
	}
}

// After a story every server comes online and every task succeeds: no task may stay open.
func TestNoTaskStaysOpenOnceServersAreOnlineAndTasksSucceed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newStory(t)
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			s.step()
		}
		s.heal()
		for range 200 {
			s.openStep()
			s.admitStep()
			s.succeedAll()
		}
		for server := range s.view.open {
			alive, _ := s.view.Rows.Server(server)
			for id := range s.view.open[server] {
				t.Fatalf("task %s on %s stays open: %v, %v", id, server, s.view.open[server][id].Task, alive)
			}
		}
		if left := s.view.Queue.Openings(10); len(left) > 0 {
			t.Fatalf("tasks are still due: %s", fmt.Sprint(left))
		}
	})
}

// A fact that does not fit indicates an error, so the last facts of a decommissioning must fit.
func TestTheOutcomeOfACleanUpFitsADeadServer(t *testing.T) {
	s := newTale(t)
	s.fold(ledger.Server, "s", &serverv1.Dying{})
	s.fold(ledger.Server, "s", &serverv1.Dead{})
	s.fold(ledger.Server, "s", &serverv1.Uninstalled{})
	if s.Apply(ledger.Fact{Noun: ledger.Server, Key: "s", Body: &serverv1.Online{}, Sequence: s.last + 1}) {
		t.Error("a dead server comes online")
	}
	s.fold(ledger.Server, "s", &serverv1.Forgotten{})
}
