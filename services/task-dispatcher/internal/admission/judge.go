package admission

import (
	"fmt"

	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/ident"
)

// Server is what counts of a server.
type Server struct {
	Life     serverv1.Life
	Presence serverv1.Presence
	Standing serverv1.Standing
	Ahead    bool // it is ahead of the ledger
	Twin     bool // two executors beat as it
}

// Task is what counts of a task that has not ended.
type Task struct {
	ID       string // empty for one that is still to be opened
	Agent    string // empty for a refresh
	Queued   uint64 // its place in the queue
	Removes  bool
	UnderWay bool // assigned or running
	Outdated bool // queued, and what it would bring about is not wanted any more
}

func (t Task) refreshes() bool { return t.Agent == "" }

// Agent is what counts of an agent.
type Agent struct {
	Tier         uint32
	Dependencies []string
}

// Judge says of each task of one server why it waits; empty means that it may go, or
// is under way. agents tells about agents by name.
func Judge(s Server, tasks []Task, agents func(name string) Agent) []string {
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
	case s.Life != serverv1.Life_LIFE_ALIVE && s.Life != serverv1.Life_LIFE_DYING:
		return "waits for the server, which is not enrolled"
	case s.Standing != serverv1.Standing_STANDING_ENROLLED:
		return "waits for the server, which is quarantined"
	case s.Ahead:
		return "waits for the server, which is ahead of the ledger, as after the restore of a backup; garrison restore status"
	case s.Twin:
		return "waits for the server, as which two machines beat; garrison explain DUPLICATE_IDENTITY"
	case s.Presence != serverv1.Presence_PRESENCE_ONLINE:
		return "waits for the server, which is not online"
	}
	return ""
}

func bySameAgent(t Task, tasks []Task) string {
	for _, other := range tasks {
		if other.Agent != t.Agent || other.ID == t.ID || other.Outdated {
			continue
		}
		if other.UnderWay || other.Queued < t.Queued {
			return fmt.Sprintf("waits for task %s of the same agent to end", ident.Short(other.ID))
		}
	}
	return ""
}

// Limit takes from the tasks that may go, in the order of the queue, as many as there
// are free places, and at most most.
func Limit(ready func(yield func(uint64, string) bool), underWay, concurrency, most int) []string {
	free := min(concurrency-underWay, most)
	if free <= 0 {
		return nil
	}
	var out []string
	for _, id := range ready {
		if out = append(out, id); len(out) == free {
			break
		}
	}
	return out
}
