package view

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// twoSides is a view, and the disk of a server that follows its document.
type twoSides struct {
	t    *rapid.T
	view *View
	n    uint64
	disk map[string]string // image ids, by agent
	over map[string]bool   // tasks that ended on the server
}

const placedOn = "s1"

func newTwoSides(t *rapid.T) *twoSides {
	s := &twoSides{t: t, view: New(nil), disk: map[string]string{}, over: map[string]bool{}}
	s.fold(ledger.Server, placedOn, &serverv1.Invited{Cell: "main"})
	s.fold(ledger.Server, placedOn, &serverv1.Enrolled{})
	s.fold(ledger.Server, placedOn, &serverv1.Online{})
	for n := range 4 { // images with an odd number never become ready
		id := imageID(n)
		s.fold(ledger.Image, id, &imagev1.Created{Manifest: &imagev1.Manifest{Id: id, Version: fmt.Sprint(n)}})
	}
	return s
}

func imageID(n int) string { return fmt.Sprint("image ", n) }

func ready(image string) bool { return (image[len(image)-1]-'0')%2 == 0 }

func (s *twoSides) fold(noun ledger.Noun, key string, body proto.Message) {
	s.n++
	f := ledger.Fact{Noun: noun, Key: key, Body: proto.Clone(body), At: time.Unix(int64(s.n), 0), Sequence: s.n}
	if !s.view.Apply(f) {
		s.t.Fatalf("fact %d does not fit: %s %v", s.n, f.Name(), body)
	}
}

func (s *twoSides) draw(what string, most int) int { return rapid.IntRange(0, most).Draw(s.t, what) }

// step takes one step: an intent, a cancelled task, or work of the dispatcher or of the server.
func (s *twoSides) step() {
	agent := rapid.SampledFrom([]string{"a", "b"}).Draw(s.t, "agent")
	switch s.draw("step", 6) {
	case 0, 1, 2:
		s.want(agent)
	case 3:
		s.openDue()
	case 4:
		s.admit()
	case 5:
		s.follow(agent)
	case 6:
		listed, _ := s.view.Listing.List(Filter{Limit: 50})
		for _, t := range listed {
			if t.State == taskv1.State_STATE_QUEUED {
				s.fold(ledger.Task, t.Id, &taskv1.Cancelled{})
				return
			}
		}
	}
}

func (s *twoSides) want(agent string) {
	key := ledger.Key(placedOn, agent)
	i, known := s.view.instances.table.Get(key)
	switch id, generation := i.GetInstanceId(), i.GetGeneration()+1; {
	case known && s.draw("removal", 4) == 0:
		s.fold(ledger.Instance, key, &instancev1.Unwanted{InstanceId: id, Generation: generation})
	case !known:
		id = fmt.Sprint("instance ", s.n)
		fallthrough
	default:
		image := &imagev1.Ref{Id: imageID(s.draw("image", 3))}
		s.fold(ledger.Instance, key, &instancev1.Wanted{InstanceId: id, Generation: generation, Image: image})
	}
}

func (s *twoSides) openDue() {
	for _, o := range s.view.Queue.Openings(10) {
		s.fold(ledger.Task, o.ID, o.Body)
	}
	for _, e := range s.view.Queue.Outdated(10) {
		s.fold(ledger.Task, e.ID, e.Body)
	}
}

// admit assigns tasks: each must name what the server has at that moment.
func (s *twoSides) admit() {
	for _, a := range s.view.Queue.Admissions(time.Time{}, limit, 10) {
		s.fold(ledger.Task, a.ID, &taskv1.Assigned{
			Deadline: timestamppb.New(time.Unix(int64(s.n), 0).Add(time.Hour)), Opened: a.Opened,
		})
		t, _, _ := s.view.Rows.Task(a.ID)
		if have := s.disk[t.Agent]; t.From.GetId() != have {
			s.t.Fatalf("task %s of %s starts from %q; the server has %q", a.ID, t.Agent, t.From.GetId(), have)
		}
		if installs := t.Verb == taskv1.Verb_VERB_INSTALL; t.To != nil && installs != (s.disk[t.Agent] == "") {
			s.t.Fatalf("the verb is %v; the server has %q", t.Verb, s.disk[t.Agent])
		}
	}
}

// follow applies the document for an agent.
func (s *twoSides) follow(agent string) {
	d, _ := s.view.Rows.Document(placedOn)
	for _, r := range d.GetRemovals() {
		if r.Agent == agent && !s.over[r.TaskId] {
			delete(s.disk, agent)
			s.end(r.TaskId, true)
			return
		}
	}
	for _, e := range d.GetEntries() {
		if e.Agent != agent || e.TaskId == "" || s.over[e.TaskId] {
			continue
		}
		if works := ready(e.Image.Id); works {
			s.disk[agent] = e.Image.Id
			s.end(e.TaskId, true)
		} else {
			s.end(e.TaskId, false)
		}
		return
	}
}

func (s *twoSides) end(id string, well bool) {
	s.over[id] = true
	t, _, _ := s.view.Rows.Task(id)
	switch late := t.To != nil && s.draw("late", 3) == 0; {
	case late && well:
		s.fold(ledger.Task, id, &taskv1.Expired{})
		s.fold(ledger.Task, id, &taskv1.ReportedLate{State: taskv1.State_STATE_SUCCEEDED})
		return
	case late:
		s.fold(ledger.Task, id, &taskv1.Expired{})
		s.fold(ledger.Task, id, &taskv1.ReportedLate{State: taskv1.State_STATE_UNDONE})
		return
	case !well:
		s.fold(ledger.Task, id, &taskv1.Undone{})
		return
	}
	s.fold(ledger.Task, id, &taskv1.Succeeded{})
	if t.Verb == taskv1.Verb_VERB_REMOVE {
		if i, ok := s.view.instances.table.Get(ledger.Key(placedOn, t.Agent)); ok && i.Unwanted && i.TaskId == id {
			s.fold(ledger.Instance, ledger.Key(placedOn, t.Agent), &instancev1.Gone{InstanceId: t.InstanceId})
		}
	}
}

// With changes that overlap, are rolled back, and are reported after their tasks expired, a task names the image from
// which it really starts, and in the end the document equals the server.
func TestTasksAndDocumentsMatchTheServer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newTwoSides(t)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			s.step()
		}
		for range 50 {
			s.openDue()
			s.admit()
			s.follow("a")
			s.follow("b")
		}
		d, _ := s.view.Rows.Document(placedOn)
		asked := map[string]string{}
		for _, e := range d.GetEntries() {
			asked[e.Agent] = e.Image.Id
		}
		if fmt.Sprint(asked) != fmt.Sprint(s.disk) || len(d.GetRemovals()) > 0 {
			t.Fatalf("the document has %v and %d removals; the server has %v", asked, len(d.GetRemovals()), s.disk)
		}
	})
}
