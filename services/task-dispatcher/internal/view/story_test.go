package view

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"
	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// limit is the concurrency in stories.
const limit = 3

// keepInStories is how many ended tasks stay in a story's view, so that some leave it.
const keepInStories = 4

func newStoryView() *View {
	v := New(nil)
	v.ended.keep, v.counts.keep = keepInStories, keepInStories
	return v
}

// story generates a ledger, fact by fact, as a small fleet may produce it. Some facts fit and some do
// not; those about tasks are mostly the work that the view itself lists.
type story struct {
	t     *rapid.T
	view  *View
	facts []ledger.Fact
	tasks []string // every task that was ever queued
	now   time.Time
}

func newStory(t *rapid.T) *story {
	s := &story{t: t, view: newStoryView(), now: time.Unix(1_700_000_000, 0)}
	if rapid.Bool().Draw(t, "empty") {
		return s
	}
	for _, id := range []string{"s1", "s2", "s3"} { // most facts need servers
		s.fold(ledger.Server, id, &serverv1.Invited{Cell: "main", Environment: "prod"})
		s.fold(ledger.Server, id, &serverv1.Enrolled{})
		s.fold(ledger.Server, id, &serverv1.Online{})
	}
	return s
}

func (s *story) pick(what string, of ...string) string { return rapid.SampledFrom(of).Draw(s.t, what) }
func (s *story) server() string                        { return s.pick("server", "s1", "s2", "s3") }
func (s *story) agent() string                         { return s.pick("agent", "a", "b", "c") }
func (s *story) image() string                         { return s.pick("image", "i1", "i2", "i3") }
func (s *story) number(what string, most int) int      { return rapid.IntRange(0, most).Draw(s.t, what) }

// fold folds the next fact.
func (s *story) fold(noun ledger.Noun, key string, body proto.Message) bool {
	s.now = s.now.Add(time.Second)
	f := ledger.Fact{Noun: noun, Key: key, Body: body, At: s.now, Sequence: uint64(len(s.facts) + 1)}
	s.facts = append(s.facts, f)
	f.Body = proto.Clone(body) // the view may keep parts of it
	return s.view.Apply(f)
}

// step folds the facts of one event.
func (s *story) step() {
	switch s.number("step", 10) {
	case 0:
		s.serverStep()
	case 1, 2:
		s.instanceStep()
	case 3:
		s.libraryStep()
	case 4, 5:
		s.openStep()
	case 6:
		s.admitStep()
	case 7, 8:
		s.reportStep()
	case 9:
		s.endStep()
	case 10:
		s.keepStep()
	}
}

func (s *story) serverStep() {
	id := s.server()
	all := []proto.Message{
		&serverv1.Invited{
			Cell: "main",
		}, &serverv1.Enrolled{}, &serverv1.Online{}, &serverv1.Online{}, &serverv1.Offline{},
		&serverv1.Changed{
			Labels:      map[string]string{"n": fmt.Sprint(len(s.facts) % 3), "z": "1"},
			Environment: s.pick("environment", "", "prod", "prod"),
		}, &serverv1.SysinfoSeen{},
		&serverv1.Quarantined{}, &serverv1.Released{}, &serverv1.Released{}, &serverv1.Dying{}, &serverv1.Dead{},
		&serverv1.Forgotten{},
	}
	s.fold(ledger.Server, id, all[s.number("fact", len(all)-1)])
}

func (s *story) instanceStep() {
	server, agent := s.server(), s.agent()
	key := ledger.Key(server, agent)
	i, known := s.view.instances.table.Get(key)
	id, generation := i.GetInstanceId(), i.GetGeneration()+uint64(s.number("ahead", 2))
	if !known {
		id = fmt.Sprintf("x%d", len(s.facts))
	}
	ref := &imagev1.Ref{Id: s.image()}
	switch s.number("fact", 7) {
	case 0, 1, 2, 3:
		s.fold(ledger.Instance, key, &instancev1.Wanted{
			InstanceId: id, Generation: generation, Image: ref, Configuration: s.configuration(), IntentId: s.intent(),
			AdoptCandidate:   s.pick("candidate", "", "", "process/7-8"),
			RevertedIntentId: s.pick("withdrawn", "", "", "", "", "n1"),
		})
	case 4:
		s.fold(ledger.Instance, key, &instancev1.Unwanted{
			InstanceId: id, Generation: generation, IntentId: s.intent(), Release: s.number("release", 1) == 1,
		})
	case 5:
		s.fold(ledger.Instance, key, &instancev1.Observed{
			InstanceId: id, Image: ref, Health: instancev1.Health(s.number("health", 3)),
		})
	case 6:
		s.fold(ledger.Instance, key, &instancev1.Gone{InstanceId: id})
	case 7:
		s.fold(ledger.Instance, key, &instancev1.Adopted{InstanceId: id, Image: ref})
	}
}

// intent returns the same id for a few facts in a row.
func (s *story) intent() string { return fmt.Sprintf("n%d", len(s.facts)/5) }

// configuration returns nil, or a configuration that names the fact at which it was generated.
func (s *story) configuration() *instancev1.Configuration {
	if s.number("configured", 2) == 0 {
		return nil
	}
	of := fmt.Sprint(len(s.facts))
	return &instancev1.Configuration{Metadata: map[string]string{"of": of}, Digest: []byte(of)}
}

func (s *story) libraryStep() {
	id, agent := s.image(), s.agent()
	a := &agentv1.Agent{Name: agent, Tier: uint32(s.number("tier", 2)), Dependencies: []string{s.agent()}}
	switch s.number("fact", 8) {
	case 8:
		s.fold(ledger.Intent, fmt.Sprintf("n%d", s.number("intent", len(s.facts))), &intentv1.Withdrawn{})
	case 0, 1, 2:
		s.fold(ledger.Image, id,
			&imagev1.Created{Manifest: &imagev1.Manifest{Id: id, Version: fmt.Sprint(len(s.facts))}})
	case 3:
		s.fold(ledger.Image, id, &imagev1.Deleted{})
	case 4:
		s.fold(ledger.Agent, agent, &agentv1.Created{Agent: a})
	case 5:
		s.fold(ledger.Agent, agent, &agentv1.Changed{Agent: a})
	case 6:
		s.fold(ledger.Agent, agent, &agentv1.Deleted{})
	case 7:
		s.fold(ledger.Intent, fmt.Sprintf("n%d", len(s.facts)), &intentv1.Accepted{
			Intent: &intentv1.Intent{
				Ask: &intentv1.Intent_Refresh{Refresh: &intentv1.Refresh{}},
			}, ServerIds: []string{s.server(), s.server()}, Changed: 2,
		})
	}
}

func (s *story) openStep() {
	for _, o := range s.view.Queue.Openings(2) {
		o.Body.Deadline = timestamppb.New(s.now.Add(time.Hour))
		s.tasks = append(s.tasks, o.ID)
		s.fold(ledger.Task, o.ID, o.Body)
	}
	for _, e := range s.view.Queue.Outdated(2) {
		s.fold(ledger.Task, e.ID, e.Body)
	}
}

func (s *story) admitStep() {
	if s.number("claim", 4) == 0 {
		s.fold(ledger.Task, s.pick("claim key", ClaimKey, ClaimKey, "other"),
			&taskv1.Claimed{ProcessId: s.pick("process", "p1", "p2")})
	}
	admissions := s.view.Queue.Admissions(time.Time{}, limit, 2)
	checkKeep(s.t, s.view, admissions)
	for _, a := range admissions {
		if a.Opened != nil {
			s.tasks = append(s.tasks, a.ID)
		}
		s.fold(ledger.Task, a.ID, &taskv1.Assigned{
			Deadline: timestamppb.New(s.now.Add(time.Minute)), Opened: a.Opened,
		})
	}
}

// reportStep folds a fact about any task that was ever queued, fitting or not.
func (s *story) reportStep() {
	if len(s.tasks) == 0 {
		return
	}
	all := []proto.Message{
		&taskv1.Started{},
		&taskv1.Succeeded{},
		&taskv1.Failed{},
		&taskv1.Undone{},
		&taskv1.Cancelled{},
	}
	id := s.tasks[len(s.tasks)-1-s.number("task", min(len(s.tasks)-1, 8))]
	s.fold(ledger.Task, id, all[s.number("fact", len(all)-1)])
}

func (s *story) endStep() {
	for _, e := range s.view.Queue.Overdue(s.now.Add(time.Duration(s.number("minutes", 2))*time.Minute), 2) {
		s.fold(ledger.Task, e.ID, e.Body)
	}
}

// whole returns the results of all queries, for comparison with another view's.
func whole(v *View) string {
	outdated := v.Queue.Outdated(100)
	slices.SortFunc(outdated, func(a, b Ending) int { return slices.Compare([]byte(a.ID), []byte(b.ID)) })
	tasks, claim := v.Queue.Admissions(time.Time{}, limit, 100), v.Rows.Claim()
	next, more := v.Queue.NextDeadline()
	rows, _ := v.Listing.List(Filter{Limit: 1000})
	var listed []*taskv1.Task
	for _, t := range rows {
		listed = append(listed, t)
	}
	for n := range tasks {
		tasks[n].task = nil // it prints as an address
	}
	out := fmt.Sprint(v.Queue.Openings(100), outdated, tasks, claim, next, more, v.Queue.UnderWay(), counted(v), listed)
	for _, server := range []string{"s1", "s2", "s3"} {
		d, ok := v.Rows.Document(server)
		data, _ := proto.MarshalOptions{Deterministic: true}.Marshal(d)
		out += fmt.Sprintf("\n%s %v %x", server, ok, data)
	}
	return out
}

// counted returns the sizes of the indexes without a query.
func counted(v *View) string {
	return fmt.Sprint(v.instances.due.Len(), v.refreshes.due.Len(), len(v.Queue.outdated),
		v.Queue.ready.Len(), len(v.Queue.ready.of), v.ended.len(), len(v.lists.byName), len(v.open),
		len(v.instances.byServer), v.images.users, len(v.refreshes.byServer), v.counts.ended.Len())
}

// heal brings every server online that can be, and lifts the keep budgets, which may need more servers than there are.
func (s *story) heal() {
	s.fold(ledger.Environment, "prod", &environmentv1.Changed{Environment: &environmentv1.Environment{}})
	for _, id := range []string{"s1", "s2", "s3"} {
		s.fold(ledger.Server, id, &serverv1.Released{})
		s.fold(ledger.Server, id, &serverv1.Online{})
	}
}

// succeedAll lets every task under way succeed.
func (s *story) succeedAll() {
	for _, id := range s.tasks {
		if t, _, ok := s.view.Rows.Task(id); ok &&
			(t.State == taskv1.State_STATE_ASSIGNED || t.State == taskv1.State_STATE_RUNNING) {
			s.fold(ledger.Task, id, &taskv1.Succeeded{})
		}
	}
}
