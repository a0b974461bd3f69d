package engine

import (
	"sync"
	"time"

	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
)

// endTogether is how long the end of a change waits at most for the ends of others that are
// under way: a burst of changes is reported with one list of agents, not with one for each.
const endTogether = 100 * time.Millisecond

// ending is a group of changes that end in one write.
type ending struct {
	changes []*steps.Run
	full    chan struct{} // closed when every change under way has joined
	done    chan struct{} // closed when it is written
	err     error         // valid after done
}

// endings puts changes that end together into groups.
type endings struct {
	write func([]*steps.Run) error
	wait  time.Duration // at most, for the ends of others

	mu       sync.Mutex
	underWay int
	open     *ending // which may still be joined; nil for none
}

// begin counts a change that is under way.
func (g *endings) begin() {
	g.mu.Lock()
	g.underWay++
	g.mu.Unlock()
}

// leave uncounts a change that has ended, or was left open.
func (g *endings) leave() {
	g.mu.Lock()
	g.underWay--
	g.mu.Unlock()
}

// join puts a change into the open group. The one that opened the group writes it.
func (g *endings) join(r *steps.Run) (in *ending, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if first = g.open == nil; first {
		g.open = &ending{full: make(chan struct{}), done: make(chan struct{})}
	}
	in = g.open
	in.changes = append(in.changes, r)
	if len(in.changes) >= g.underWay {
		close(in.full)
		g.open = nil
	}
	return in, first
}

// shut ends the joining of a group.
func (g *endings) shut(in *ending) {
	g.mu.Lock()
	if g.open == in {
		g.open = nil
	}
	g.mu.Unlock()
}

// end closes a change in one write, perhaps together with others. A change that is alone does
// not wait.
func (g *endings) end(r *steps.Run) error {
	in, first := g.join(r)
	if first {
		select {
		case <-in.full:
		case <-time.After(g.wait):
		}
		g.shut(in)
		in.err = g.write(in.changes)
		close(in.done)
	}
	<-in.done
	return in.err
}
