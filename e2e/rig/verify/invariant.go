// Package verify checks what must hold over a whole ledger after every fault. Each
// check names the facts that break it.
package verify

import (
	"fmt"
	"slices"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/noun/instance"
	noun "github.com/garrison-fleet/garrison/pkg/noun/task"

	instancev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/instance/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// Check returns the invariants that a ledger breaks once nothing is under way.
// acknowledged are the ids of the intents that the bus acknowledged to their publishers.
func Check(facts []ledger.Fact, acknowledged []string) []error {
	c := &checker{
		ids:     map[string]uint64{},
		decided: map[string]int{}, open: map[string]string{}, tasks: map[string]*task{},
		last:        map[string]decision{},
		generations: map[string]bool{}, instances: map[string]map[string]bool{}, dead: map[string]bool{},
	}
	waves := newRollouts(c.breaks)
	for _, f := range facts {
		c.fold(f)
		waves.fold(f)
	}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(acknowledged))) {
		if n := c.decided[id]; n != 1 {
			c.breaks(ledger.Fact{}, "intent %s was acknowledged and decided %d times", id, n)
		}
	}
	for id, t := range c.tasks {
		if !t.ended {
			c.breaks(t.last, "task %s never ended", id)
		}
	}
	return c.broken
}

type task struct {
	slot    string // server and agent
	started bool
	ended   bool
	last    ledger.Fact
}

// decision is what was decided last about an instance.
type decision struct {
	instance   string
	generation uint64
}

type checker struct {
	ids         map[string]uint64          // the sequence of each fact, by its id
	decided     map[string]int             // how often an intent was decided
	open        map[string]string          // the task between assigned and its end, by server and agent
	tasks       map[string]*task           // by id
	generations map[string]bool            // instance, generation and attempt for which a task was opened
	last        map[string]decision        // about each instance, by server and agent
	instances   map[string]map[string]bool // agents wanted, by server
	dead        map[string]bool
	broken      []error
}

func (c *checker) breaks(f ledger.Fact, format string, args ...any) {
	c.broken = append(c.broken, fmt.Errorf("fact %d: %s", f.Sequence, fmt.Sprintf(format, args...)))
}

func (c *checker) fold(f ledger.Fact) {
	if f.Actor == "" || f.Source != f.Noun.Writer() {
		c.breaks(f, "a fact about a %s, written by %q for actor %q", f.Noun, f.Source, f.Actor)
	}
	if before := c.ids[f.ID]; before != 0 {
		c.breaks(f, "its id %s is that of fact %d", f.ID, before)
	}
	c.ids[f.ID] = f.Sequence
	switch b := f.Body.(type) {
	case *intentv1.Accepted, *intentv1.Refused:
		if c.decided[f.Key]++; c.decided[f.Key] > 1 {
			c.breaks(f, "intent %s is decided again", f.Key)
		}
	case *instancev1.Wanted:
		c.last[f.Key] = decision{b.InstanceId, b.Generation}
		c.wanted(f, b)
	case *instancev1.Unwanted:
		c.last[f.Key] = decision{b.InstanceId, b.Generation}
	case *instancev1.Gone:
		delete(c.last, f.Key)
		server, agent, _ := cutKey(f.Key)
		delete(c.instances[server], agent)
	case *serverv1.Dead:
		c.died(f, b)
	}
	if f.Noun == ledger.Task {
		c.task(f)
	}
}

func (c *checker) wanted(f ledger.Fact, b *instancev1.Wanted) {
	server, agent, _ := cutKey(f.Key)
	if c.dead[server] {
		c.breaks(f, "%s is wanted on a dead server", f.Key)
	}
	if b.IntentId == "" {
		c.breaks(f, "%s changes and no intent asked for it", f.Key)
	}
	if c.instances[server] == nil {
		c.instances[server] = map[string]bool{}
	}
	c.instances[server][agent] = true
}

func (c *checker) died(f ledger.Fact, b *serverv1.Dead) {
	if left := c.instances[f.Key]; len(left) > 0 {
		c.breaks(f, "server %s is dead with %d instances", f.Key, len(left))
	}
	for id, t := range c.tasks { // what a lost server has under way ends after it
		if server, _, _ := cutKey(t.slot); server == f.Key && !t.ended && !b.Lost {
			c.breaks(f, "server %s is dead while task %s is under way", f.Key, id)
		}
	}
	c.dead[f.Key] = true
}

var (
	ends     = []string{"succeeded", "failed", "undone", "cancelled", "expired", "superseded"}
	reported = []string{"succeeded", "failed", "undone"} // the ends that a server reports
)

func (c *checker) task(f ledger.Fact) {
	if f.Name() == "claimed" || c.overtaken(f) {
		return // it is about the admission of all tasks, or opens none
	}
	if q := noun.Opened(f.Body); q != nil {
		c.opened(f, q)
	}
	switch t, ok := c.tasks[f.Key]; {
	case !ok:
		c.breaks(f, "task %s was %s before it was opened", f.Key, f.Name())
	case f.Name() != "queued":
		c.moved(f, t)
	}
}

// overtaken reports whether a fact assigns at once what another decision took the place of meanwhile.
func (c *checker) overtaken(f ledger.Fact) bool {
	q := noun.Opened(f.Body)
	d := c.last[ledger.Key(q.GetServerId(), q.GetAgent())]
	return instance.Overtaken(f.Body, d.instance, d.generation)
}

// moved checks a fact about a task that is open.
func (c *checker) moved(f ledger.Fact, t *task) {
	if f.Name() == "reported-late" && t.last.Name() == "expired" {
		t.last = f // once: it completes the record, and is no second end
		return
	}
	if t.ended {
		c.breaks(f, "task %s was %s after its end at %d", f.Key, f.Name(), t.last.Sequence)
		return
	}
	t.last = f
	switch {
	case f.Name() == "assigned":
		if other := c.open[t.slot]; other != "" {
			c.breaks(f, "task %s is assigned while %s is under way on the same server and agent", f.Key, other)
		}
		c.open[t.slot] = f.Key
	case f.Name() == "started":
		if t.started {
			c.breaks(f, "task %s started twice", f.Key)
		}
		t.started = true
	case slices.Contains(ends, f.Name()):
		if slices.Contains(reported, f.Name()) && c.open[t.slot] != f.Key {
			c.breaks(f, "task %s was %s and never assigned", f.Key, f.Name())
		}
		t.ended = true
		if c.open[t.slot] == f.Key {
			delete(c.open, t.slot)
		}
	}
}

func (c *checker) opened(f ledger.Fact, b *taskv1.Queued) {
	what := fmt.Sprintf("%s %d %d", b.InstanceId, b.Generation, b.Attempt)
	if b.InstanceId != "" && c.generations[what] {
		c.breaks(f, "the same change is opened again: instance, generation, attempt %s", what)
	}
	if c.tasks[f.Key] != nil {
		c.breaks(f, "task %s is opened again", f.Key)
	}
	c.generations[what] = true
	slot := ledger.Key(b.ServerId, b.Agent)
	if b.Agent == "" {
		slot = ledger.Key(b.ServerId, f.Key) // refreshes do not exclude each other
	}
	c.tasks[f.Key] = &task{slot: slot, last: f}
}

// cutKey splits a server's id from an agent's name.
func cutKey(key string) (server, agent string, ok bool) {
	for i := range key {
		if key[i] == '.' {
			return key[:i], key[i+1:], true
		}
	}
	return key, "", false
}
