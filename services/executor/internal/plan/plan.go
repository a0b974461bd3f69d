// Package plan decides which changes a document asks for now. It is pure.
//
// Guarantees:
//
//  1. A task that ended here is never asked for again.
//  2. An agent whose change is under way gets no second one.
//  3. An entry waits while an entry of a lower tier, or one of its dependencies, is due or under way.
//  4. An agent that the document does not name is left alone.
//  5. An entry waits while an agent with which it conflicts is being removed.
package plan

import (
	"cmp"
	"slices"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
)

// Have is what the server has of an agent.
type Have struct {
	InstanceID, ImageID string
	Configuration       string // the digest of its metadata, or empty
}

// Situation is what a decision needs to know beside the document.
type Situation struct {
	Have  map[string]Have          // by agent
	Busy  map[string]bool          // agents with a change under way
	Ended func(taskID string) bool // reports whether a task ended here
	Tried func(Action) bool        // reports whether a change without a task was tried lately, or failed here

	// Intact reports whether an agent's files and links are in place, or are not to be repaired now
	// without a task. It looks at the disk, so it is asked only where nothing else decides.
	Intact func(agent string) bool
}

// Action is one change to begin. Exactly one of its fields is set.
type Action struct {
	Entry   *desiredv1.Entry
	Removal *desiredv1.Removal
}

// Agent names the agent that the action is about.
func (a Action) Agent() string {
	if a.Entry != nil {
		return a.Entry.GetAgent()
	}
	return a.Removal.GetAgent()
}

// TaskID names the task, or is empty.
func (a Action) TaskID() string {
	if a.Entry != nil {
		return a.Entry.GetTaskId()
	}
	return a.Removal.GetTaskId()
}

// TaskIDs returns the ids of the tasks in a document; some may be empty.
func TaskIDs(d *desiredv1.Document) []string {
	var out []string
	for _, en := range d.GetEntries() {
		out = append(out, en.GetTaskId())
	}
	for _, r := range d.GetRemovals() {
		out = append(out, r.GetTaskId())
	}
	for _, q := range d.GetRequests() {
		out = append(out, q.GetTaskId())
	}
	return out
}

// Next returns the actions that may begin now, removals first and then entries by tier and name.
func Next(d *desiredv1.Document, s Situation) []Action {
	var out []Action
	for _, r := range d.GetRemovals() {
		if a := (Action{Removal: r}); !s.Busy[r.GetAgent()] && s.removalDue(a) {
			out = append(out, a)
		}
	}
	unsettled := map[string]*desiredv1.Entry{}
	going := map[string]bool{}
	for _, r := range d.GetRemovals() {
		going[r.GetAgent()] = s.Busy[r.GetAgent()] || s.removalDue(Action{Removal: r})
	}
	for _, e := range d.GetEntries() {
		if s.Busy[e.GetAgent()] || s.entryDue(Action{Entry: e}) {
			unsettled[e.GetAgent()] = e
		}
	}
	var entries []*desiredv1.Entry
	for _, e := range unsettled {
		makesRoom := slices.ContainsFunc(e.GetImage().GetConflicts(), func(other string) bool { return going[other] })
		if !s.Busy[e.GetAgent()] && !makesRoom && !waits(e, unsettled) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b *desiredv1.Entry) int {
		return cmp.Or(cmp.Compare(a.GetTier(), b.GetTier()), cmp.Compare(a.GetAgent(), b.GetAgent()))
	})
	for _, e := range entries {
		out = append(out, Action{Entry: e})
	}
	return out
}

func (s Situation) removalDue(a Action) bool {
	if id := a.TaskID(); id != "" {
		return !s.Ended(id)
	}
	have, ok := s.Have[a.Agent()]
	return ok && have.InstanceID == a.Removal.GetInstanceId() && !s.Tried(a)
}

func (s Situation) entryDue(a Action) bool {
	if id := a.TaskID(); id != "" {
		return !s.Ended(id)
	}
	if s.Tried(a) {
		return false
	}
	have, ok := s.Have[a.Agent()]
	same := ok && have.ImageID == a.Entry.GetImage().GetId() && have.InstanceID == a.Entry.GetInstanceId() &&
		have.Configuration == string(a.Entry.GetConfigurationDigest())
	return !same || !s.Intact(a.Agent())
}

func waits(e *desiredv1.Entry, unsettled map[string]*desiredv1.Entry) bool {
	for _, other := range unsettled {
		if other.GetTier() < e.GetTier() {
			return true
		}
		if other != e && slices.Contains(e.GetDependencies(), other.GetAgent()) && !mutual(e, other) {
			return true
		}
	}
	return false
}

// Needs returns the agents that must be there when an entry is changed: its dependencies,
// but for those that wait for this one.
func Needs(d *desiredv1.Document, e *desiredv1.Entry) []string {
	var out []string
	for _, name := range e.GetDependencies() {
		i := slices.IndexFunc(d.GetEntries(), func(other *desiredv1.Entry) bool { return other.GetAgent() == name })
		if i < 0 || !mutual(e, d.GetEntries()[i]) {
			out = append(out, name)
		}
	}
	return out
}

// mutual reports whether two entries wait for each other, or the other is of a higher tier
// and so waits for this one. Then the first by name goes on: a circle, which the registry
// refuses, must not stop a server.
func mutual(e, other *desiredv1.Entry) bool {
	if other.GetTier() > e.GetTier() {
		return true
	}
	return slices.Contains(other.GetDependencies(), e.GetAgent()) && e.GetAgent() < other.GetAgent()
}
