package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	"github.com/garrison-fleet/garrison/pkg/noun/task"
)

// Check folds a ledger and compares it with what the servers of a fleet did. Facts about other servers are passed over.
type Check struct {
	ours      func(server string) bool
	tasks     map[string]*taskFacts
	instances map[string]*instancev1.Instance // by key
	wanted    map[string]map[string]bool      // the ids of the images that were wanted, by key
	broken    []string                        // what no later fact can mend
}

// taskFacts is what the ledger says of a task.
type taskFacts struct {
	server        string
	record        *taskv1.Task
	started, ends int
	end, late     taskv1.State
	deadline      time.Time
}

// NewCheck returns a check of the servers that ours names.
func NewCheck(ours func(server string) bool) *Check {
	return &Check{
		ours: ours, tasks: map[string]*taskFacts{}, instances: map[string]*instancev1.Instance{},
		wanted: map[string]map[string]bool{},
	}
}

// Fold takes the next fact of the ledger.
func (c *Check) Fold(f ledger.Fact) {
	switch f.Noun {
	case ledger.Task:
		c.task(f)
	case ledger.Instance:
		c.instance(f)
	}
}

func (c *Check) breaks(f ledger.Fact, format string, args ...any) {
	c.broken = append(c.broken, fmt.Sprintf("fact %d: %s", f.Sequence, fmt.Sprintf(format, args...)))
}

func (c *Check) task(f ledger.Fact) {
	t := c.tasks[f.Key]
	if q := task.Opened(f.Body); t == nil && q != nil && c.ours(q.GetServerId()) {
		i := c.instances[ledger.Key(q.GetServerId(), q.GetAgent())]
		if instance.Overtaken(f.Body, i.GetId(), i.GetGeneration()) {
			return
		}
		t = &taskFacts{server: q.GetServerId(), deadline: q.GetDeadline().AsTime()}
		c.tasks[f.Key] = t
	}
	if t == nil {
		return
	}
	switch b := f.Body.(type) {
	case *taskv1.Queued:
	case *taskv1.Assigned:
		t.deadline = b.GetDeadline().AsTime()
	case *taskv1.Started:
		if t.started++; t.started > 1 {
			c.breaks(f, "task %s started again", f.Key)
		}
	case *taskv1.ReportedLate:
		t.late = b.GetState()
	default:
		if t.ends++; t.ends > 1 {
			c.breaks(f, "task %s ended again, as %s", f.Key, f.Name())
		}
		if t.end = task.State(f.Name()).Proto(); t.record.AssignedAt == nil && byServer(t.end) {
			c.breaks(f, "task %s was %s and never assigned", f.Key, f.Name())
		}
	}
	t.record, _ = task.Apply(t.record, f)
	instance.ApplyShown(c.instances[ledger.Key(t.server, t.record.GetAgent())], t.record, f.At)
}

func (c *Check) instance(f ledger.Fact) {
	server, _, _ := strings.Cut(f.Key, ".")
	if !c.ours(server) {
		return
	}
	switch b := f.Body.(type) {
	case *instancev1.Wanted:
		if c.wanted[f.Key] == nil {
			c.wanted[f.Key] = map[string]bool{}
		}
		c.wanted[f.Key][b.GetImage().GetId()] = true
	case *instancev1.Observed:
		if id := b.GetImage().GetId(); id != "" && !c.wanted[f.Key][id] {
			c.breaks(f, "%s was observed with image %s, which no intent asked for", f.Key, id)
		}
	}
	if now, ok := instance.Apply(c.instances[f.Key], f); now == nil {
		delete(c.instances, f.Key)
	} else if ok {
		c.instances[f.Key] = now
	}
}

// Result is what a check found.
type Result struct {
	Tasks    int      // that the ledger has of the servers
	Open     int      // that have not ended and whose deadline has not passed
	Compared int      // whose end was compared with what the server did
	Findings []string // where ledger and servers differ
}

// Compare returns where the facts so far differ from the truths.
func (c *Check) Compare(truths map[string]Truth, now time.Time) Result {
	r := Result{Tasks: len(c.tasks), Findings: slices.Clone(c.broken)}
	for _, id := range slices.Sorted(maps.Keys(c.tasks)) {
		c.compareTask(&r, id, truths[c.tasks[id].server], now)
	}
	for _, server := range slices.Sorted(maps.Keys(truths)) {
		c.compareServer(&r, server, truths[server])
	}
	r.Findings = append(r.Findings, c.unexplained(truths)...)
	return r
}

func (r *Result) add(format string, args ...any) {
	r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
}

func (c *Check) compareTask(r *Result, id string, truth Truth, now time.Time) {
	t := c.tasks[id]
	switch {
	case t.ends == 0 && truth.Fault.leavesOpen() && now.Before(t.deadline):
		r.Open++
		return
	case t.ends == 0:
		r.Open++
		r.add("task %s of server %s (%s) has not ended", id, t.server, truth.Fault)
		return
	}
	r.Compared++
	if why := t.differs(truth, id); why != "" {
		r.add("task %s of server %s is %s in the ledger; %s", id, t.server, task.StateOf(t.end), why)
	}
}

// differs returns how the end of a task in the ledger differs from its end on the server, or "".
func (t *taskFacts) differs(truth Truth, id string) string {
	said, did := truth.Ended[id]
	there := "the server ended it as " + string(task.StateOf(said))
	switch {
	case !did:
		if byServer(t.end) && !truth.Forgotten {
			return "the server never ended it"
		}
	case byServer(t.end):
		if t.end != said {
			return there
		}
	case t.end != taskv1.State_STATE_EXPIRED:
		return there
	case t.late != said && !truth.Dead:
		return there + ", and the ledger has as its late report: " + string(task.StateOf(t.late))
	}
	return ""
}

// byServer reports whether a server decides that a task ends so.
func byServer(s taskv1.State) bool {
	return s == taskv1.State_STATE_SUCCEEDED || s == taskv1.State_STATE_FAILED || s == taskv1.State_STATE_UNDONE
}

func (c *Check) compareServer(r *Result, server string, truth Truth) {
	for _, id := range slices.Sorted(maps.Keys(truth.Ended)) {
		if c.tasks[id] == nil {
			r.add("server %s ended task %s, which the ledger does not have", server, id)
		}
	}
	if truth.Dead {
		return
	}
	if truth.Waiting > 0 || truth.Dropped > 0 {
		r.add("server %s: %d reports wait and %d were dropped", server, truth.Waiting, truth.Dropped)
	}
	for _, agent := range slices.Sorted(maps.Keys(truth.Agents)) {
		image := truth.Agents[agent]
		if at := c.instances[ledger.Key(server, agent)].GetObserved().GetId(); at != image {
			r.add("server %s has %s with image %s; the ledger observed %q", server, agent, image, at)
		}
	}
}

// unexplained returns the instances that the ledger observed on a server that does not have them.
func (c *Check) unexplained(truths map[string]Truth) (out []string) {
	for _, key := range slices.Sorted(maps.Keys(c.instances)) {
		server, agent, _ := strings.Cut(key, ".")
		t := truths[server]
		if i := c.instances[key]; i.GetObserved() != nil && !t.Dead && t.Agents[agent] == "" {
			out = append(out, fmt.Sprintf("server %s does not have %s; the ledger observed image %s", server, agent,
				i.GetObserved().GetId()))
		}
	}
	return out
}
