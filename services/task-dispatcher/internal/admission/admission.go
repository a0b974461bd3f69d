// Package admission decides which queued tasks may be assigned, and why the others wait.
//
// All conditions but the limit on tasks under way depend on one server alone, so Decide takes one
// server: a change costs what changed, not the size of the fleet. Limit then selects from the ready
// tasks of all servers.
//
// Of several dispatchers one, the leader, admits at a time; TakeOver decides when another takes over.
//
// Guarantees:
//
//  1. Of the tasks of one agent on one server at most one is under way.
//  2. On a server an agent is changed after the agents that it needs, and lower tiers before higher
//     ones; an agent is removed before the agents that it needs, and higher tiers before lower ones.
//  3. No order makes tasks wait for each other without end: an agent counts with the lowest tier of
//     those that need it, and agents that need each other follow the order of the queue.
//  4. Every task that waits has a reason, in one sentence.
package admission

import (
	"fmt"
	"iter"
	"time"

	"github.com/garrison-fleet/garrison/pkg/ident"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Server is a server as a decision sees it.
type Server struct {
	Life       serverv1.Life
	Presence   serverv1.Presence
	Standing   serverv1.Standing
	Offline    time.Time // since when it is offline; zero while it is not
	Ahead      bool      // it is ahead of the ledger
	Duplicated bool      // two executors beat with its identity
}

// Task is a task that has not ended.
type Task struct {
	ID       string // empty for a task that is still to be opened
	Agent    string // empty for a refresh
	Queued   uint64 // its position in the queue
	Removes  bool
	UnderWay bool // assigned or running
	Outdated bool // queued, and its outcome is no longer wanted
	Ahead    bool // it fetches an image ahead, which no refresh waits for
}

func (t Task) refreshes() bool { return t.Agent == "" }

// Agent is an agent as a decision sees it.
type Agent struct {
	Tier         uint32
	Dependencies []string
}

// Decide returns, for each task of one server, the reason why it waits; empty when it may be assigned
// or is under way. agents returns an agent by its name.
func Decide(s Server, tasks []Task, agents func(name string) Agent) []string {
	reasons := make([]string, len(tasks))
	o := newOrder(tasks, agents)
	for i, t := range tasks {
		if t.UnderWay {
			continue
		}
		reasons[i] = firstOf(
			func() string { return byServer(s, t) },
			func() string { return bySameAgent(t, tasks) },
			func() string { return o.reason(t) })
	}
	return reasons
}

func firstOf(reasons ...func() string) string {
	for _, r := range reasons {
		if s := r(); s != "" {
			return s
		}
	}
	return ""
}

func byServer(s Server, t Task) string {
	switch {
	case t.Outdated:
		return "is outdated; what is wanted has changed since"
	case s.Life == serverv1.Life_LIFE_DYING && !t.Removes:
		return "is not sent: the server is dying, and only removals are sent to it"
	}
	return Away(s)
}

// Away returns why nothing is sent to a server, or "".
func Away(s Server) string {
	switch {
	case s.Life != serverv1.Life_LIFE_ALIVE && s.Life != serverv1.Life_LIFE_DYING:
		return "waits for the server, which is not enrolled"
	case s.Standing == serverv1.Standing_STANDING_REVOKED:
		return "waits for the server, whose credentials are revoked; garrison server enroll makes a new token"
	case s.Standing != serverv1.Standing_STANDING_ENROLLED:
		return "waits for the server, which is quarantined; garrison server release ends that"
	case s.Ahead:
		return "waits for the server, which is ahead of the ledger, as after the restore of a backup; " +
			"garrison restore"
	case s.Duplicated:
		return "waits for the server: two machines use its identity; garrison explain DUPLICATE_IDENTITY"
	case !s.Offline.IsZero():
		return Offline(s.Offline)
	case s.Presence != serverv1.Presence_PRESENCE_ONLINE:
		return "waits for the server, which is not online"
	}
	return ""
}

// Offline returns why nothing happens to a task while its server is offline.
func Offline(since time.Time) string {
	return "server offline since " + since.UTC().Format(time.RFC3339)
}

func bySameAgent(t Task, tasks []Task) string {
	for _, other := range tasks {
		if other.Agent != t.Agent || other.Ahead != t.Ahead || other.ID == t.ID || other.Outdated {
			continue
		}
		if other.UnderWay || other.Queued < t.Queued {
			return fmt.Sprintf("waits for task %s of the same agent to end", ident.Short(other.ID))
		}
	}
	return ""
}

// Limit returns the first of the ready tasks, in the order of the queue: as many as there are free
// slots, and at most most.
func Limit[T any](ready iter.Seq[T], underWay, concurrency, most int) (out []T) {
	free := min(concurrency-underWay, most)
	if free <= 0 {
		return nil
	}
	for t := range ready {
		if out = append(out, t); len(out) == free {
			break
		}
	}
	return out
}
